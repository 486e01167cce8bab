// One decision from end to end: gather → decide → apply → report, for one volume at a time. Whatever asks (a sample, a changed
// object, the slow path) comes through `evaluate`; a volume whose last write is still under way is asked again afterwards.

import { decisionTime, STEP_AHEAD_MS } from "../../api/decision-time.ts";
import type { TrimRequest } from "../../api/trim.ts";
import type { KubeClient } from "../../kube/client.ts";
import type { EventRecorder } from "../../kube/events.ts";
import { KubeError } from "../../kube/kube-error.ts";
import type { Logger } from "../../process/log.ts";
import type { CompiledPolicy } from "../compiled-policy.ts";
import { grantLimit } from "../emergency.ts";
import type { PlannedShrink } from "../facts.ts";
import type { ChangePlan, Plan } from "../plan.ts";
import { mostBytes, sameConclusion } from "../plan.ts";
import { advanceRuleTimers } from "../rule-timers.ts";
import { applyGrant, applyTarget, applyTrim } from "./apply.ts";
import { BATCH_VOLUMES, createDecideBatch, type Decided } from "./decide-batch.ts";
import type { Gathered, World } from "./gather.ts";
import { inPlaceOfDeposed } from "./in-place-of-deposed.ts";
import type { EngineMetrics } from "./metrics.ts";
import type { PolicyBook } from "./policy-book.ts";
import { newGrant, sendGuidance } from "./precautions.ts";
import type { RateLimit } from "./rate-limit.ts";
import { reportPlan } from "./report.ts";
import type { SampleServer } from "./sample-server.ts";
import type { VolumeRegistry, VolumeState } from "./volume-registry.ts";

export interface EngineOptions {
  readonly client: KubeClient;
  readonly events: EventRecorder;
  readonly registry: VolumeRegistry;
  readonly world: World;
  readonly policies: PolicyBook;
  /** Where guidance goes. */
  readonly samples: Pick<SampleServer, "guide">;
  readonly metrics: EngineMetrics;
  /** Changes to the whole cluster a second; a plan over it waits for the next evaluation. */
  readonly clusterRate: RateLimit;
  /** The leader's epoch, asked right before each write; undefined: this replica only watches. */
  readonly epoch: () => number | undefined;
  readonly nowMs: () => number;
  readonly log: Logger;
}

export interface Engine {
  /** Decides one volume now. Never throws, never waits. */
  evaluate(handle: string): void;
  /** Decides many, in batches; between two of them others get their turn. */
  evaluateAll(handles: Iterable<string>): Promise<void>;
  /** What evaluate would decide, with the facts it rests on; undefined while the volume's objects are not all there. */
  look(handle: string): Decided | undefined;
  /** Resolves when the writes under way have ended. */
  settled(): Promise<void>;
}

/** A status is not rewritten more often than this, unless a size changes. */
const REPORT_INTERVAL_MS = 1000;
/** That a change is under way its own report says; most are over by then. */
const UNDER_WAY_INTERVAL_MS = 3000;

export function createEngine(options: EngineOptions): Engine {
  const { registry, world, policies, nowMs, log } = options;
  const onBug = (handle: string, err: unknown): void =>
    log.error({ volume: handle, err }, "a decision failed: this is a bug; the volume's size stays");
  const decideBatch = createDecideBatch(world, policies, onBug);
  const underWay = new Set<Promise<void>>();

  const evaluate = (handles: readonly string[]): void => {
    const epoch = options.epoch();
    // A replica that only watches keeps the rules' timers all the same, ready to lead.
    const states = handles.map((handle) => registry.get(handle));
    for (const decided of decideBatch(states, nowMs())) {
      const { state, policy, plan, gathered } = decided;
      if (policy !== undefined)
        state.timers = advanceRuleTimers(state.timers, policy, plan.heldRules, gathered.facts.nowMs);
      if (epoch !== undefined) carryOutDecided(decided, epoch);
    }
  };
  const carryOutDecided = (decided: Decided, epoch: number): void => {
    const { state, gathered, plan, guidance } = decided;
    if (state.applying) {
      state.askedMeanwhile = true;
      return;
    }
    const planned = writesOf(options, decided, epoch, () => evaluate([state.handle]));
    const writes = thenTrim(options, decided, epoch, replaceDeposed(options, decided, epoch, planned));
    if (guidance !== undefined) sendGuidance(options.samples, state, gathered, guidance);
    const grant = writeOfGrant(options, decided, epoch);
    if (writes !== undefined || grant !== undefined) follow(state, plan, Promise.all([writes, grant]));
  };
  const follow = (state: VolumeState, plan: Plan, writes: Promise<unknown>): void => {
    state.applying = true;
    const run: Promise<void> = writes
      .then(
        () => undefined,
        (error: unknown) => {
          // The next decision is made on fresh facts; nothing is retried blindly.
          options.metrics.refusedWrites.inc({ reason: error instanceof KubeError ? error.reason : "Internal" });
          log.warn({ volume: state.handle, err: error, plan: plan.kind }, "a plan was not written");
        },
      )
      .finally(() => {
        underWay.delete(run);
        state.applying = false;
        const again = state.askedMeanwhile;
        state.askedMeanwhile = false;
        if (again) evaluate([state.handle]);
      });
    underWay.add(run);
  };
  return {
    evaluate: (handle) => evaluate([handle]),
    evaluateAll: async (handles) => {
      const all = [...handles];
      for (let start = 0; start < all.length; start += BATCH_VOLUMES) {
        // Samples that came meanwhile go first.
        await new Promise((resolve) => setImmediate(resolve));
        evaluate(all.slice(start, start + BATCH_VOLUMES));
      }
    },
    look: (handle) => decideBatch([registry.get(handle)], nowMs())[0],
    settled: async () => {
      await Promise.all(underWay);
    },
  };
}

/** The writes of a plan, begun; undefined where there is nothing new to write, or not yet: then `again` is called in time. */
function writesOf(
  options: EngineOptions,
  { state, gathered, policy, plan }: Decided,
  epoch: number,
  again: () => void,
): Promise<void> | undefined {
  const { nowMs } = gathered.facts;
  if (plan.kind !== "hold") {
    const trim = wantedTrim(policy);
    return options.clusterRate.take(nowMs) ? change(options, state, gathered, plan, trim, epoch) : undefined;
  }
  const reported = reportedOn(state, gathered);
  if (reported !== undefined && sameConclusion(reported.plan, plan)) return undefined;
  clearTimeout(state.reportTimer);
  const waitMs = reported === undefined ? 0 : reported.atMs + reportIntervalMs(reported.plan, plan) - nowMs;
  if (waitMs <= 0) return report(options, state, gathered, plan);
  state.reportTimer = setTimeout(again, waitMs).unref();
  return undefined;
}

/** A target that was refused is replaced where the plan replaces it not. */
function replaceDeposed(
  { client, log }: EngineOptions,
  { gathered, policy, plan }: Decided,
  epoch: number,
  planned: Promise<void> | undefined,
): Promise<void> | undefined {
  const target = plan.kind === "hold" ? inPlaceOfDeposed(gathered, epoch) : undefined;
  if (target === undefined) return planned;
  const { namespace, name } = gathered.filesystem.metadata;
  log.info({ namespace, name, epoch }, "the present size is put in the place of a deposed leader's target");
  return (planned ?? Promise.resolve()).then(() =>
    applyTarget(client, gathered.filesystem, target, wantedTrim(policy)),
  );
}

/** Undefined where a Filesystem was deleted and made again: it says nothing yet. */
function reportedOn({ reported }: VolumeState, { filesystem }: Gathered): VolumeState["reported"] {
  return reported?.filesystemUID === filesystem.metadata.uid ? reported : undefined;
}

function reportIntervalMs(reported: Plan, { reason }: Plan): number {
  return reported.kind !== "hold" && reason === "OperationInProgress" ? UNDER_WAY_INTERVAL_MS : REPORT_INTERVAL_MS;
}

/** After what is planned, which is more urgent and may carry the trims already. */
function thenTrim(
  { client }: EngineOptions,
  { gathered: { filesystem }, policy, plan }: Decided,
  epoch: number,
  planned: Promise<void> | undefined,
): Promise<void> | undefined {
  const trim = wantedTrim(policy);
  const isCarried = plan.kind !== "hold" && planned !== undefined;
  if (isCarried || filesystem.spec.trim?.every === trim?.every) return planned;
  return (planned ?? Promise.resolve()).then(() => applyTrim(client, filesystem, trim, epoch));
}

/** A suspended policy has nothing done to its volumes. */
function wantedTrim(policy: CompiledPolicy | undefined): TrimRequest | undefined {
  return policy?.trimEvery === undefined || policy.suspended ? undefined : { every: policy.trimEvery };
}

/** The write of the grant, begun; undefined: what stands serves. From here on the promise counts, whatever the answer says. */
function writeOfGrant(
  { client, world: { promises } }: EngineOptions,
  { state: { handle }, gathered, policy, ceilings, grant }: Decided,
  epoch: number,
): Promise<void> | undefined {
  const budgetBytes = ceilings.namespaceBytes?.value;
  const shareBytes = budgetBytes === undefined ? Number.POSITIVE_INFINITY : promises.grantShare(handle, budgetBytes);
  const limitBytes = grantLimit(gathered.facts, policy, ceilings);
  const change = newGrant(gathered, grant, { shareBytes, limitBytes }, epoch);
  if (change?.to !== undefined) promises.granting(handle, change.to.sizeBytes, epoch, gathered.facts.nowMs);
  return change && applyGrant(client, gathered.layout, change.to);
}

async function change(
  options: EngineOptions,
  state: VolumeState,
  gathered: Gathered,
  plan: ChangePlan,
  trim: TrimRequest | undefined,
  epoch: number,
): Promise<void> {
  const { nowMs } = gathered.facts;
  // Merging members takes an extend first, which is decided a moment before.
  const aheadMs = plan.members === undefined ? 0 : STEP_AHEAD_MS;
  const decidedAt = decisionTime(nowMs, gathered.layout, gathered.filesystem, aheadMs);
  // Before the write: from here on it may have happened, whatever the answer says.
  state.pending = {
    kind: plan.kind === "extend" ? "Extend" : "Shrink",
    sizeBytes: plan.sizeBytes,
    mostBytes: mostBytes(plan),
    decidedAt,
    writtenAtMs: nowMs,
    capacityBytes: gathered.facts.filesystem.reading?.capacityBytes,
    planned: plannedShrink(plan),
    attempt: gathered.facts.filesystem.extendsInVain + 1,
  };
  try {
    const { sizeBytes, fromBytes, notAfterMs, members } = plan;
    const target = { sizeBytes, fromBytes, epoch, decidedAt, notAfterMs, members };
    await applyTarget(options.client, gathered.filesystem, target, trim);
  } catch (error) {
    if (!(error instanceof KubeError && error.reason === "Unreachable")) state.pending = undefined;
    throw error;
  }
  options.metrics.targets.inc({ plan: plan.kind });
  await report(options, state, gathered, plan);
}

function plannedShrink({ sizeBytes, fromBytes, notAfterMs }: ChangePlan): PlannedShrink | undefined {
  return notAfterMs === undefined ? undefined : { sizeBytes, fromBytes, notAfterMs };
}

async function report(options: EngineOptions, state: VolumeState, gathered: Gathered, plan: Plan): Promise<void> {
  await reportPlan(options.client, options.events, gathered.filesystem, plan, state, gathered.facts.nowMs);
  state.reported = { plan, atMs: gathered.facts.nowMs, filesystemUID: gathered.filesystem.metadata.uid };
  options.metrics.decisions.inc({ plan: plan.kind, reason: plan.reason });
  const { namespace, name } = gathered.filesystem.metadata;
  options.log.info({ namespace, name, plan: plan.kind, reason: plan.reason, rule: plan.rule }, plan.message);
}
