// One decision from end to end: gather → decide → apply → report, for one volume at a time. Whatever asks (a sample, a changed
// object, the slow path) comes through `evaluate`; a volume whose last write is still under way is asked again afterwards.
import { KubeError } from "../../platform/kube/kube-error.ts";
import { type Clock, instantOf } from "../../platform/process/clock.ts";
import { type PlanWriting, writeOfGrant, writesOf } from "../apply/plan-writes.ts";
import { sendGuidance } from "../apply/precautions.ts";
import type { Plan } from "../decide/plan.ts";
import { advanceVainExtends } from "../decide/vain-extends.ts";
import { advanceRuleTimers, type ClaimFacts, claimKey, type Facts } from "../facts/facts.ts";
import { growthHistoryFor } from "../facts/growth-history.ts";
import type { PolicyBook } from "../gather/policy-book.ts";
import type { VolumeRegistry, VolumeState } from "../gather/volume-registry.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import type { RuleErrors } from "../report/rule-errors.ts";
import type { SampleServer } from "../samples/sample-server.ts";
import { BATCH_VOLUMES, createDecideBatch, type Decided } from "./decide-batch.ts";
import { createStandingDecisions } from "./standing-decisions.ts";

export interface EngineOptions extends PlanWriting {
  readonly registry: VolumeRegistry;
  readonly policies: PolicyBook;
  /** Each volume's decision, before anything is written, on each replica. */
  readonly onDecided: (handle: string, claim: ClaimFacts, plan: Plan) => void;
  /** Where guidance goes. */
  readonly samples: Pick<SampleServer, "guide">;
  readonly ruleErrors: Pick<RuleErrors, "note">;
  readonly clock: Clock;
}

export interface Engine {
  /** Decides one volume now. Never throws, never waits. */
  evaluate(handle: string): void;
  /** Decides those of many whose last decision no longer stands, in batches; between two of them others get their turn. */
  evaluateAll(handles: Iterable<string>): Promise<void>;
  /** What evaluate would decide, with the facts it rests on; undefined while the volume's objects are not all there. */
  look(handle: string): Decided | undefined;
  /** Resolves when the writes under way have ended. */
  settled(): Promise<void>;
}

export function createEngine(options: EngineOptions): Engine {
  const { registry, world, policies, clock, log } = options;
  const onBug = (handle: string, err: unknown): void =>
    log.error({ volume: handle, err }, "a decision failed: this is a bug; the volume's size stays");
  const batch = createDecideBatch(world, policies, onBug);
  const standing = createStandingDecisions(options);
  const underWay = new Set<Promise<void>>();
  // What is remembered of a volume is forgotten with its layout: nothing would forget what is remembered later.
  const isThere = (handle: string): boolean => world.caches.layouts.store.get(handle) !== undefined;

  const evaluate = (handles: readonly string[], stands?: typeof standing.stands): void => {
    const epoch = options.epoch();
    // A replica that only watches keeps the rules' timers all the same, ready to lead.
    const states = handles.filter(isThere).map((handle) => registry.get(handle));
    for (const decided of batch.decide(states, instantOf(clock), stands)) {
      noteDecided(options, decided);
      if (epoch !== undefined) carryOutDecided(decided, epoch);
      decided.state.standing = standing.after(decided);
    }
  };
  const carryOutDecided = (decided: Decided, epoch: number): void => {
    const { state, gathered, plan, guidance } = decided;
    if (state.applying) {
      state.askedMeanwhile = true;
      return;
    }
    const writes = writesOf(options, decided, epoch, () => evaluate([state.handle]));
    if (guidance !== undefined) sendGuidance(options.samples, state, gathered, guidance);
    const grant = writeOfGrant(options, decided, epoch);
    if (writes !== undefined || grant !== undefined)
      follow(state, plan, allEnded([writes, grant].filter((write) => write !== undefined)));
  };
  const follow = (state: VolumeState, plan: Plan, writes: Promise<unknown>): void => {
    state.applying = true;
    const run: Promise<void> = writes
      .then(
        () => undefined,
        (error: unknown) => reportUnwritten(options, state, plan, error),
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
        // Samples that came in between go first.
        await new Promise((resolve) => setImmediate(resolve));
        evaluate(all.slice(start, start + BATCH_VOLUMES), standing.stands);
      }
    },
    look: (handle) => (isThere(handle) ? batch.look(registry.get(handle), instantOf(clock)) : undefined),
    settled: async () => {
      await Promise.all(underWay);
    },
  };
}

function noteDecided({ onDecided, ruleErrors }: EngineOptions, decided: Decided): void {
  const { state, policy, plan, gathered } = decided;
  onDecided(state.handle, gathered.facts.claim, plan);
  if (policy !== undefined) advanceRules(state, policy, plan, gathered.facts);
  noteRuleError(ruleErrors, decided);
}

function advanceRules(state: VolumeState, policy: CompiledPolicy, { heldRules }: Plan, facts: Facts): void {
  state.timers = advanceRuleTimers(state.timers, policy, heldRules, facts);
  state.vainExtends = advanceVainExtends(state.vainExtends, policy, heldRules);
  state.growth = growthHistoryFor(state.growth, policy.growthWindowsMs);
}

function noteRuleError(ruleErrors: EngineOptions["ruleErrors"], { state, gathered, policy, plan }: Decided): void {
  const { ruleError: error, heldRules } = plan;
  const isAsked = heldRules !== undefined;
  ruleErrors.note({ handle: state.handle, claim: claimKey(gathered.facts.claim), policy, error, isAsked });
}

/** The next decision is made on fresh facts; nothing is retried blindly. */
function reportUnwritten({ metrics, log }: EngineOptions, { handle }: VolumeState, plan: Plan, error: unknown): void {
  metrics.refusedWrites.inc({ reason: error instanceof KubeError ? error.reason : "Internal" });
  log.warn({ volume: handle, err: error, plan: plan.kind }, "a plan was not written");
}

/** Rejects as the first that failed does, and only once none is under way: a write that is overtaken would stand in place of its successor. */
async function allEnded(writes: readonly Promise<void>[]): Promise<void> {
  await Promise.allSettled(writes);
  await Promise.all(writes);
}
