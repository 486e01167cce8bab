// Decides many volumes under one time limit: the rules are other people's programs. When the limit ends a batch, the policy that has taken
// most of it is invalid from then on. It still guards minAvailable, and the batch goes on without it.
import type { Instant } from "../../platform/process/clock.ts";
import { newGuidance } from "../apply/precautions.ts";
import { decide } from "../decide/decide.ts";
import { mostBytes, type Plan } from "../decide/plan.ts";
import { type CacheReads, type NotedCaches, noteReads } from "../gather/cache-reads.ts";
import { type Gathered, gather, pendingTarget, type World } from "../gather/gather-facts.ts";
import type { NamespacePromises } from "../gather/namespace-promises.ts";
import type { PolicyBook } from "../gather/policy-book.ts";
import { createPromisesDraft, type PromisesDraft } from "../gather/promises-draft.ts";
import type { Guided, VolumeState } from "../gather/volume-registry.ts";
import type { Ceilings } from "../policies/ceilings.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import type { Selected } from "../policies/select-policy.ts";
import { type Candidate, candidateFor, type OverRequests } from "../sizing/namespace-budget.ts";
import { createTimeLimit } from "./own-limits.ts";

export interface Decided {
  readonly state: VolumeState;
  readonly gathered: Gathered;
  readonly policy: CompiledPolicy | undefined;
  readonly ceilings: Ceilings;
  readonly plan: Plan;
  readonly guidance: Guided | undefined;
  readonly selected: Selected;
  /** What it has read of the caches; undefined: more than can be noted. */
  readonly reads: CacheReads | undefined;
  /** Of the others in its namespace, as it saw them. */
  readonly sums: OthersSums;
  /** What it would have if its namespace had no budget; newGrant says how much of its grant it gets. Undefined: as last time. */
  readonly candidate: Candidate | undefined;
}

export interface OthersSums extends OverRequests {
  readonly othersBytes: number;
}

/** Far over what any honest batch takes, far under the lease's renew deadline. */
const BATCH_LIMIT_MS = 3000;
/** Volumes that share one limit. */
export const BATCH_VOLUMES = 500;

export interface DecidingWorld extends World {
  readonly promises: NamespacePromises;
}

export interface DecideBatch {
  /**
   * The fullest first, which thereby has the first word on what they share. Each sees what was decided before it; what they promise is in the
   * ledger afterwards. Volumes whose objects are not all there are left out, and so are those whose decision stands.
   */
  decide(states: readonly VolumeState[], at: Instant, stands?: Stands): Decided[];
  /** What would be decided of one; the ledger stays as it is. */
  look(state: VolumeState, at: Instant): Decided | undefined;
}

/** Whether a volume's last decision stands. `promises`: with what was decided just before. */
type Stands = (state: VolumeState, at: Instant, promises: PromisesDraft) => boolean;

/** Of one volume, once it was its turn. "Skipped": its objects are not all there, or its decision stands. */
type Outcome = Decided | "Skipped" | { readonly state: VolumeState; readonly bug: unknown };

/** `onBug` hears of a volume that could not be decided: its size stays, and the others are decided all the same. */
export function createDecideBatch(
  world: DecidingWorld,
  policies: PolicyBook,
  onBug: (handle: string, error: unknown) => void,
): DecideBatch {
  const limit = createTimeLimit(BATCH_LIMIT_MS);
  const noted = noteReads(world.caches);
  const decideAll = (states: readonly VolumeState[], at: Instant, stands?: Stands): Decided[] => {
    const outcomes: Outcome[] = [];
    // Nothing outlasts this but outcomes, each put there whole by one assignment: wherever the limit ends it, it goes on after the last one.
    const goOn = (spent: SpentTimes): void => {
      const promises = createPromisesDraft(world.promises);
      const drafted = { ...world, caches: noted.caches, promises };
      for (const outcome of outcomes) draftPromise(promises, outcome);
      for (const state of states.slice(outcomes.length)) {
        const outcome =
          stands?.(state, at, promises) === true ? "Skipped" : outcomeOf(drafted, noted, policies, state, at, spent);
        draftPromise(promises, outcome);
        outcomes[outcomes.length] = outcome;
      }
    };
    for (;;) {
      const spent = new SpentTimes();
      if (limit.run(() => goOn(spent)) !== "too slow") break;
      invalidateSlowest(policies, spent.end());
    }
    return outcomes.flatMap((outcome) => {
      if (outcome === "Skipped") return [];
      if ("plan" in outcome) return [outcome];
      onBug(outcome.state.handle, outcome.bug);
      return [];
    });
  };
  return {
    decide: (asking, at, stands) => {
      const states = [...asking].sort((a, b) => fullRatio(b) - fullRatio(a));
      for (const state of states)
        world.promises.begin(state.handle, pendingTarget(state, at.monotonicMs)?.mostBytes ?? 0);
      const decided = decideAll(states, at, stands);
      for (const { state, plan, candidate } of decided) {
        const bytes = mostBytes(plan);
        if (bytes > 0) world.promises.extending(state.handle, bytes);
        if (candidate !== undefined) world.promises.requesting(state.handle, candidate);
      }
      return decided;
    },
    look: (state, at) => decideAll([state], at)[0],
  };
}

function draftPromise(promises: PromisesDraft, outcome: Outcome): void {
  if (outcome === "Skipped" || !("plan" in outcome)) return;
  const bytes = mostBytes(outcome.plan);
  if (bytes > 0) promises.extending(outcome.state.handle, bytes);
}

function outcomeOf(
  world: World,
  noted: Pick<NotedCaches<unknown>, "begin" | "end">,
  policies: PolicyBook,
  state: VolumeState,
  at: Instant,
  spent: SpentTimes,
): Outcome {
  try {
    noted.begin();
    const gathered = gather(world, state, at);
    const reads = noted.end();
    if (gathered === undefined) return "Skipped";
    const selected = policies.forClaim(gathered.facts.claim);
    const { policy, ceilings } = selected;
    spent.begin(policy);
    const plan = decide(gathered.facts, policy, ceilings);
    const guidance = newGuidance(state, gathered.facts, policy, ceilings);
    const candidate = candidateFor(gathered.facts, policy, ceilings, plan);
    spent.end();
    const sums = sumsOf(world.promises, state.handle);
    return { state, gathered, policy, ceilings, plan, guidance, candidate, selected, reads, sums };
  } catch (bug) {
    return { state, bug };
  }
}

function sumsOf(promises: World["promises"], handle: string): OthersSums {
  return { othersBytes: promises.othersBytes(handle), ...promises.othersOver(handle) };
}

/** What each policy has taken in a run. It decides nothing but which one is named where a run takes too long. */
class SpentTimes {
  #spentMs = new Map<CompiledPolicy, number>();
  #asked: { readonly policy: CompiledPolicy; readonly sinceMs: number } | undefined;
  begin(policy: CompiledPolicy | undefined): void {
    this.#asked = policy && { policy, sinceMs: performance.now() };
  }
  end(): ReadonlyMap<CompiledPolicy, number> {
    const asked = this.#asked;
    this.#asked = undefined;
    if (asked !== undefined)
      this.#spentMs.set(asked.policy, (this.#spentMs.get(asked.policy) ?? 0) + performance.now() - asked.sinceMs);
    return this.#spentMs;
  }
}

function fullRatio({ reading }: VolumeState): number {
  const usedRatio = reading === undefined ? 0 : reading.usedBytes / reading.capacityBytes;
  return Number.isFinite(usedRatio) ? usedRatio : 0;
}

function invalidateSlowest(policies: PolicyBook, spentMs: ReadonlyMap<CompiledPolicy, number>): void {
  const [slowest] = [...spentMs].sort(([, a], [, b]) => b - a);
  if (slowest === undefined) return;
  const [policy, durationMs] = slowest;
  policies.invalidate(policy, {
    field: "spec.rules",
    message: `evaluating them took ${Math.round(durationMs)} ms of the ${BATCH_LIMIT_MS} ms that ${BATCH_VOLUMES} volumes share`,
    hint: "make the expressions cheaper: fewer loops over labels and annotations, simpler patterns",
  });
}
