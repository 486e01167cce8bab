// Decides many volumes under one time limit: the rules are other people's programs. When the limit ends a batch, the policy that has spent
// most of it on a core is invalid for a while, and so is one whose decisions spend too much: each, or in sum. It still guards minAvailable, and the batch
// goes on without it.
import type { Instant } from "../../platform/process/clock.ts";
import { newGuidance } from "../apply/precautions.ts";
import { decide } from "../decide/decide.ts";
import { beginsChange, mostBytes, type Plan } from "../decide/plan.ts";
import { type CacheReads, type NotedCaches, noteReads } from "../gather/cache-reads.ts";
import { type Gathered, gather, pendingTarget, type World } from "../gather/gather-facts.ts";
import type { NamespacePromises } from "../gather/namespace-promises.ts";
import type { PolicyBook } from "../gather/policy-book.ts";
import { createPromisesDraft, type PromisesDraft } from "../gather/promises-draft.ts";
import type { ChangeRates } from "../gather/rates/change-rates.ts";
import { createRatesDraft, type RatesDraft } from "../gather/rates/rates-draft.ts";
import type { Guided, PendingTarget, VolumeState } from "../gather/volume-registry.ts";
import type { Ceilings } from "../policies/ceilings.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import type { Selected } from "../policies/select-policy.ts";
import { type Candidate, candidateFor, type OverRequests } from "../sizing/namespace-budget.ts";
import { createTimeLimit, Interrupted } from "./own-limits.ts";
import {
  BatchTimes,
  createDecisionBudget,
  createPolicyLoads,
  DECISION_BUDGET_MS,
  type DecisionBudget,
  type PolicyLoads,
  THREAD_CLOCKS,
} from "./policy-times.ts";

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
/** Of the limit, what one policy must have spent on a core to be named: an honest one takes less than a hundredth. */
const NAMED_SHARE = 0.1;
/** Volumes that share one limit. */
export const BATCH_VOLUMES = 500;

export interface DecidingWorld extends Omit<World, "rates"> {
  readonly promises: NamespacePromises;
  readonly rates: ChangeRates;
}

export interface DecideBatch {
  /**
   * The fullest first, which thereby has the first word on what they share. Each sees what was decided before it; what they promise and begin
   * is in the ledgers afterwards. Volumes whose objects are not all there are left out, and so are those whose decision stands.
   */
  decide(states: readonly VolumeState[], at: Instant, stands?: Stands): Decided[];
  /** What would be decided of one; the ledgers stay as they are. */
  look(state: VolumeState, at: Instant): Decided | undefined;
}

/** Whether a volume's last decision stands. `promises`: with what was decided just before. */
type Stands = (state: VolumeState, at: Instant, promises: PromisesDraft) => boolean;

/** Of one volume, once it was its turn. */
type Outcome = Decided | "Stands" | Undecided;

/** Its objects are not all there, or deciding failed by a bug. */
interface Undecided {
  readonly state: VolumeState;
  readonly bug?: unknown;
}

/** `onBug` hears of a volume that could not be decided: its size stays, and the others are decided all the same. */
export function createDecideBatch(
  world: DecidingWorld,
  policies: PolicyBook,
  onBug: (handle: string, error: unknown) => void,
  limitMs = BATCH_LIMIT_MS,
  clocks = THREAD_CLOCKS,
): DecideBatch {
  const limit = createTimeLimit(limitMs);
  const budget = createDecisionBudget();
  const loads = createPolicyLoads(clocks);
  const noted = noteReads(world.caches);
  const decideAll = (states: readonly VolumeState[], at: Instant, stands?: Stands): Outcome[] => {
    const outcomes: Outcome[] = [];
    const times = new BatchTimes();
    // It returns early where a policy may have to be named before the next volume. Nothing outlasts this but outcomes and times, each put there
    // whole by one assignment: wherever the limit ends it, it goes on after the last one.
    const goOn = (): void => {
      const drafts = draftsOf(world, at);
      const deciding = { world: { ...world, ...drafts, caches: noted.caches }, noted, policies, times, budget, loads };
      for (const outcome of outcomes) draftOutcome(drafts, outcome);
      for (const state of states.slice(outcomes.length)) {
        const outcome = stands?.(state, at, drafts.promises) === true ? "Stands" : outcomeOf(deciding, state, at);
        draftOutcome(drafts, outcome);
        outcomes[outcomes.length] = outcome;
        if (loads.isDue()) return;
      }
    };
    for (let attempts = 0; ; attempts += 1) {
      const ended = limit.attempt(goOn, attempts);
      if (ended instanceof Interrupted) times.interrupted(ended);
      else times.returned();
      const isNamed = nameSlow(policies, times.takeSlowest(limitMs * NAMED_SHARE), { budget, loads }, at);
      if (!(ended instanceof Interrupted) && outcomes.length === states.length) break;
      if (isNamed || !(ended instanceof Interrupted)) attempts = -1;
    }
    for (const outcome of outcomes)
      if (outcome !== "Stands" && "bug" in outcome) onBug(outcome.state.handle, outcome.bug);
    return outcomes;
  };
  return {
    decide: (asking, at, stands) => {
      const states = [...asking].sort((a, b) => fullRatio(b) - fullRatio(a));
      world.rates.forgetSilent();
      for (const state of states) begin(world, state.handle, pendingTarget(state, at.monotonicMs));
      const outcomes = decideAll(states, at, stands);
      const decided = outcomes.filter(isDecided);
      for (const { state, plan, candidate } of decided) {
        const bytes = mostBytes(plan);
        if (bytes > 0) world.promises.extending(state.handle, bytes);
        if (candidate !== undefined) world.promises.requesting(state.handle, candidate);
        world.rates.decided(state.handle, plan);
      }
      for (const outcome of outcomes) if (isUndecided(outcome)) world.rates.undecided(outcome.state.handle);
      return decided;
    },
    look: (state, at) => decideAll([state], at).find(isDecided),
  };
}

function isDecided(outcome: Outcome): outcome is Decided {
  return outcome !== "Stands" && "plan" in outcome;
}

function isUndecided(outcome: Outcome): outcome is Undecided {
  return outcome !== "Stands" && !("plan" in outcome);
}

function begin({ promises, rates }: DecidingWorld, handle: string, pending: PendingTarget | undefined): void {
  promises.begin(handle, pending?.mostBytes ?? 0);
  rates.begin(handle, pending !== undefined && pending.planned === undefined);
}

interface Drafts {
  readonly promises: PromisesDraft;
  readonly rates: RatesDraft;
}

function draftsOf({ promises, rates }: DecidingWorld, { monotonicMs }: Instant): Drafts {
  return { promises: createPromisesDraft(promises), rates: createRatesDraft(rates, monotonicMs) };
}

function draftOutcome({ promises, rates }: Drafts, outcome: Outcome): void {
  if (!isDecided(outcome)) return;
  const bytes = mostBytes(outcome.plan);
  if (bytes > 0) promises.extending(outcome.state.handle, bytes);
  if (beginsChange(outcome.plan)) rates.changing(outcome.gathered.layout);
}

/** What a batch decides with. */
interface Deciding {
  readonly world: World;
  readonly noted: Pick<NotedCaches<unknown>, "begin" | "end">;
  readonly policies: PolicyBook;
  readonly times: BatchTimes;
  readonly budget: DecisionBudget;
  readonly loads: PolicyLoads;
}

function outcomeOf(
  { world, noted, policies, times, budget, loads }: Deciding,
  state: VolumeState,
  at: Instant,
): Outcome {
  try {
    noted.begin();
    const gathered = gather(world, state, at);
    const reads = noted.end();
    if (gathered === undefined) return { state };
    const selected = policies.forClaim(gathered.facts.claim);
    const { policy, ceilings } = selected;
    const decideOnce = () => {
      const plan = decide(gathered.facts, policy, ceilings);
      const guidance = newGuidance(state, gathered.facts, policy, ceilings);
      return { plan, guidance, candidate: candidateFor(gathered.facts, policy, ceilings, plan) };
    };
    times.begin(policy);
    const decided = policy === undefined ? decideOnce() : loads.measure(policy, at.monotonicMs, decideOnce);
    if (policy !== undefined) budget.took(policy, times.tookMs(), decideOnce);
    times.end();
    return {
      state,
      gathered,
      policy,
      ceilings,
      ...decided,
      selected,
      reads,
      sums: sumsOf(world.promises, state.handle),
    };
  } catch (bug) {
    return { state, bug };
  }
}

function sumsOf(promises: World["promises"], handle: string): OthersSums {
  return { othersBytes: promises.othersBytes(handle), ...promises.othersOver(handle) };
}

function fullRatio({ reading }: VolumeState): number {
  const usedRatio = reading === undefined ? 0 : reading.usedBytes / reading.capacityBytes;
  return Number.isFinite(usedRatio) ? usedRatio : 0;
}

/** Returns whether a policy was slow: it is invalid for a while then. */
function nameSlow(
  policies: PolicyBook,
  slowest: ReturnType<BatchTimes["takeSlowest"]>,
  { budget, loads }: Pick<Deciding, "budget" | "loads">,
  { monotonicMs }: Instant,
): boolean {
  const named = new Map<CompiledPolicy, string>();
  for (const [policy, { ms, count }] of loads.takeExceeded(monotonicMs))
    named.set(policy, `${Math.round(ms)} ms of CPU in a minute, ${(ms / count).toFixed(1)} ms for a volume on average`);
  for (const [policy, cpuMs] of budget.takeExceeded())
    named.set(policy, `${cpuMs} ms of CPU for one volume, over ${DECISION_BUDGET_MS} ms`);
  if (slowest !== undefined)
    named.set(slowest.policy, `${slowest.cpuMs} ms of CPU in a batch of ${BATCH_VOLUMES} volumes`);
  for (const [policy, what] of named) invalidate(policies, policy, what);
  return named.size > 0;
}

function invalidate(policies: PolicyBook, policy: CompiledPolicy, what: string): void {
  policies.invalidate(policy, {
    field: "spec.rules",
    message: `evaluating them took ${what}`,
    hint: "make the expressions cheaper: fewer loops over labels and annotations, simpler patterns",
  });
}
