// What only the leading replica does: each duty begins and ends with the lease.
import type { KubeClient } from "../platform/kube/client/client.ts";
import { createOwnWrites } from "../platform/kube/client/writes.ts";
import type { EventRecorder } from "../platform/kube/events/events.ts";
import type { KeyedQueue } from "../platform/process/async/keyed-queue.ts";
import type { Clock } from "../platform/process/clock.ts";
import type { Logger } from "../platform/process/log.ts";
import { createMarkKeeper } from "./apply/mark-keeper.ts";
import { createGuardKeeper, type MemberHome } from "./apply/member-home.ts";
import { createMemberSteps } from "./apply/member-steps.ts";
import type { LayoutWriter } from "./apply/volume-objects.ts";
import { createCapacityLoop, createPendingClaims } from "./capacity/capacity-loop.ts";
import { createOptIn } from "./claim/claim-facts.ts";
import { createClaimLoop } from "./claim/reconcile-claim.ts";
import type { OperatorConfig } from "./config.ts";
import { consolidationSight } from "./consolidation/consolidation-sight.ts";
import { createConsolidations } from "./consolidation/consolidations.ts";
import type { Duty } from "./led-queue.ts";
import type { OperatorMetrics } from "./metrics.ts";
import { createNodeLossLoop } from "./node-loss/node-loss-loop.ts";
import type { OperatorCaches } from "./operator-caches.ts";
import { createVolumeLoop } from "./volumes/reconcile-volume.ts";

export interface NamedDuty {
  readonly name: string;
  readonly duty: Duty;
}

export interface DutyParts {
  readonly config: OperatorConfig;
  readonly client: KubeClient;
  readonly caches: OperatorCaches;
  readonly layouts: LayoutWriter;
  readonly turns: KeyedQueue;
  readonly home: MemberHome;
  readonly events: EventRecorder;
  readonly metrics: OperatorMetrics;
  readonly clock: Clock;
}

export function createLeaderDuties(parts: DutyParts, log: Logger): NamedDuty[] {
  const { config, client, caches, layouts, turns, home, events, metrics, clock } = parts;
  const { volumes, claims: claimCaches, capacities: capacityCaches } = caches;
  const { claims } = claimCaches;
  const optIn = createOptIn(claimCaches);
  const ofClaims = createClaimLoop({ client, caches: claimCaches, optIn, events, clock }, metrics, log);
  const guard = config.userName === undefined ? undefined : createGuardKeeper(client, volumes, config.userName, log);
  const consolidations = createLedConsolidations(parts, log);
  const budgetBytes = config.namespaceBudgetBytes;
  const ofVolumes = createVolumeLoop(
    {
      client,
      caches: volumes,
      layouts,
      events,
      metrics,
      clock,
      steps: createMemberSteps({ client, home }, clock),
      turns,
      home,
      budgetBytes,
      consolidations,
      ownWrites: createOwnWrites(clock),
    },
    log,
  );
  consolidations.onChange(ofVolumes.add);
  const capacities = createCapacityLoop(client, capacityCaches, config.leaseNamespace, log);
  const allSynced = Promise.all([volumes.synced, claimCaches.synced]).then(() => undefined);
  const marks = createMarkKeeper({ client, caches: volumes, claims }, allSynced, log);
  const delayMs = config.nodeLossDelayMs;
  const losing = { client, caches: volumes, claims, events, metrics, clock, delayMs };
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
