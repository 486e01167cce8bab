// What only the leading replica does: each duty begins and ends with the lease.
import type { KubeClient } from "../kube/client/client.ts";
import type { EventRecorder } from "../kube/events/events.ts";
import type { Clock } from "../process/clock.ts";
import type { Logger } from "../process/log.ts";
import { createCapacityLoop } from "./capacity/capacity-loop.ts";
import { createPendingClaims } from "./capacity/pending-claims.ts";
import { createClaimLoop } from "./claim/claim-loop.ts";
import { createOptIn } from "./claim/opt-in.ts";
import type { OperatorConfig } from "./config.ts";
import { consolidationSight } from "./consolidation/consolidation-sight.ts";
import { createConsolidations } from "./consolidation/consolidations.ts";
import type { Duty } from "./led-queue.ts";
import { createGuardKeeper } from "./member/guard-keeper.ts";
import { createMarkKeeper } from "./member/mark-keeper.ts";
import type { MemberHome } from "./member/member-home.ts";
import { createPace } from "./member/pace.ts";
import type { Turns } from "./member/turns.ts";
import type { OperatorMetrics } from "./metrics.ts";
import { createNodeLossLoop } from "./node-loss/node-loss-loop.ts";
import type { OperatorCaches } from "./operator-caches.ts";
import type { LayoutWriter } from "./volume/layout-writer.ts";
import { createVolumeLoop } from "./volume/volume-loop.ts";

export interface NamedDuty {
  readonly name: string;
  readonly duty: Duty;
}

export interface DutyParts {
  readonly config: OperatorConfig;
  readonly client: KubeClient;
  readonly caches: OperatorCaches;
  readonly layouts: LayoutWriter;
  readonly turns: Turns;
  readonly home: MemberHome;
  readonly events: EventRecorder;
  readonly metrics: OperatorMetrics;
  readonly clock: Clock;
}

/** Between two attempts of a provisioner that has no room on a member's node. */
const RESELECTION_INTERVAL_MS = 30_000;
/** A cache shows what was made well before. */
const MAKING_INTERVAL_MS = 1000;

export function createLeaderDuties(parts: DutyParts, log: Logger): NamedDuty[] {
  const { config, client, caches, layouts, turns, home, events, metrics, clock } = parts;
  const { volumes, claims: claimCaches, capacities: capacityCaches } = caches;
  const { claims } = claimCaches;
  const optIn = createOptIn(claimCaches);
  const ofClaims = createClaimLoop({ client, caches: claimCaches, optIn, events, clock }, metrics, log);
  const guard = config.userName === undefined ? undefined : createGuardKeeper(client, volumes, config.userName, log);
  const consolidations = createLedConsolidations(parts, log);
  const reselection = createPace(clock, RESELECTION_INTERVAL_MS);
  const making = createPace(clock, MAKING_INTERVAL_MS);
  const budgetBytes = config.namespaceBudgetBytes;
  const ofVolumes = createVolumeLoop(
    {
      client,
      caches: volumes,
      layouts,
      events,
      metrics,
      clock,
      reselection,
      making,
      turns,
      home,
      budgetBytes,
      consolidations,
    },
    log,
  );
  consolidations.onChange(ofVolumes.add);
  const capacities = createCapacityLoop(client, capacityCaches, config.leaseNamespace, log);
  const allSynced = Promise.all([volumes.synced, claimCaches.synced]).then(() => undefined);
  const marks = createMarkKeeper({ client, caches: volumes, claims }, allSynced, log);
  const settleMs = config.nodeLossDelayMs;
  const losing = { client, caches: volumes, claims, events, metrics, clock, settleMs };
  const nodeLoss = createNodeLossLoop(losing, allSynced, log);
  const pendingClaims = createPendingClaims(claims, capacityCaches, events, log);
  return [
    { name: "reconciler", duty: ofVolumes },
    { name: "consolidations", duty: consolidations },
    { name: "reconciler of claims", duty: ofClaims },
    { name: "capacities", duty: capacities },
    { name: "pending claims", duty: pendingClaims },
    { name: "node loss", duty: nodeLoss },
    { name: "marks of members", duty: marks },
    ...(guard === undefined ? [] : [{ name: "guard of members", duty: guard }]),
  ];
}

function createLedConsolidations({ config, caches, events, metrics, clock }: DutyParts, log: Logger) {
  const { volumes, claims, capacities, waitingPods } = caches;
  const sight = consolidationSight({ ...volumes, ...claims }, capacities, clock);
  const synced = Promise.all([claims.synced, capacities.synced, waitingPods.synced]).then(() => undefined);
  return createConsolidations(
    { ...sight, pods: waitingPods, events, metrics, clock },
    synced,
    config.consolidationLookMs,
    log,
  );
}
