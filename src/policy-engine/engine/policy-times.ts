// What each policy takes of the thread that decides, and which one is named where that is too much. Only time on a core counts: a container
// that is throttled, or a machine that stands still, makes no policy slow.
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import { type Interrupted, threadCpuMs } from "./own-limits.ts";

/** What one decision may take on a core: hundreds of times what an honest policy's takes. */
export const DECISION_BUDGET_MS = 10;
/** So many decisions in a row over the budget: the first ones of a process run before their code is optimised. */
const STRIKES = 3;

/** Of a batch that its time ended, by policy: at least so much was spent on cores in its decisions. */
export class BatchTimes {
  readonly #leastCpuMs = new Map<CompiledPolicy, number>();
  #wallMs = new Map<CompiledPolicy, number>();
  #asked: { readonly policy: CompiledPolicy; readonly sinceMs: number } | undefined;

  begin(policy: CompiledPolicy | undefined): void {
    this.#asked = policy && { policy, sinceMs: performance.now() };
  }

  /** How long the decision that was begun has taken in all, milliseconds. */
  tookMs(): number {
    return this.#asked === undefined ? 0 : performance.now() - this.#asked.sinceMs;
  }

  end(): void {
    const asked = this.#asked;
    if (asked === undefined) return;
    this.#wallMs.set(asked.policy, (this.#wallMs.get(asked.policy) ?? 0) + this.tookMs());
    this.#asked = undefined;
  }

  /** The attempt that began with the last call was ended. What others took in all, at most, they took on a core; the rest is the policy's. */
  interrupted({ cpuMs, wallMs }: Interrupted): void {
    this.end();
    for (const [policy, policyWallMs] of this.#wallMs) {
      const leastMs = Math.max(0, cpuMs - (wallMs - policyWallMs));
      this.#leastCpuMs.set(policy, (this.#leastCpuMs.get(policy) ?? 0) + leastMs);
    }
    this.#wallMs = new Map();
  }

  /** The attempt that began with the last call has returned: how long its decisions took says nothing of the next one. */
  returned(): void {
    this.#wallMs = new Map();
  }

  /** The one that has spent the most, where that is so much; it is named once. */
  takeSlowest(fromMs: number): { readonly policy: CompiledPolicy; readonly cpuMs: number } | undefined {
    const [slowest] = [...this.#leastCpuMs].sort(([, a], [, b]) => b - a);
    if (slowest === undefined || slowest[1] < fromMs) return undefined;
    const [policy, cpuMs] = slowest;
    this.#leastCpuMs.delete(policy);
    return { policy, cpuMs: Math.round(cpuMs) };
  }
}

export interface DecisionBudget {
  /**
   * Notes that a decision took so long. Where that is over the budget, `repeat` makes it once more, and what that spends on a core counts.
   * It changes nothing that could be left half-changed.
   */
  took(policy: CompiledPolicy, wallMs: number, repeat: () => void): void;
  /** Those over the budget since the last call, with what their last decision spent. */
  takeExceeded(): ReadonlyMap<CompiledPolicy, number>;
}

/** `cpuMs`: what this thread has spent so far. */
export function createDecisionBudget(cpuMs: () => number = threadCpuMs): DecisionBudget {
  const strikes = new WeakMap<CompiledPolicy, number>();
  let exceeded = new Map<CompiledPolicy, number>();
  return {
    took: (policy, wallMs, repeat) => {
      if (wallMs <= DECISION_BUDGET_MS || exceeded.has(policy)) return;
      const beginMs = cpuMs();
      repeat();
      const spentMs = cpuMs() - beginMs;
      const count = spentMs > DECISION_BUDGET_MS ? (strikes.get(policy) ?? 0) + 1 : 0;
      strikes.set(policy, count);
      if (count >= STRIKES) exceeded.set(policy, Math.round(spentMs));
    },
    takeExceeded: () => {
      const taken = exceeded;
      exceeded = new Map();
      for (const policy of taken.keys()) strikes.delete(policy);
      return taken;
    },
  };
}

/** What decisions under one policy have taken in the last minute. */
interface Taken {
  readonly count: number;
  readonly ms: number;
}

export interface PolicyLoads {
  /** Makes a decision under the policy, and notes what it takes. */
  measure<T>(policy: CompiledPolicy, monotonicMs: number, decision: () => T): T;
  /** So much was spent since takeExceeded that it may have something to say. */
  isDue(): boolean;
  /**
   * Of those that have decided since the last call, the ones that take too much in sum, with what they spent on a core in the last minute.
   * However many volumes it decides, a policy is not among them while its decisions are as short as an honest one's. What a policy spent
   * before it was named or edited counts to its namespace's sum all the same: edits do not begin that again.
   */
  takeExceeded(monotonicMs: number): ReadonlyMap<CompiledPolicy, Taken>;
}

/** On average, of a decision: tens of times what an honest policy's takes. */
const HEAVY_DECISION_MS = 1;
const MINUTE_MS = 60_000;
/** What the heavy policies of one namespace may spend in a minute: 2% of a core. */
const HEAVY_SUM_MS = 0.02 * MINUTE_MS;

/** Of a policy, until its average counts. */
const LEAST_DECISIONS = 30;
/** Between two looks. */
const DUE_MS = 100;

export interface ThreadClocks {
  readonly wallMs: () => number;
  /** What this thread has spent on cores so far. Reading it takes about as long as a decision. */
  readonly cpuMs: () => number;
}

export const THREAD_CLOCKS: ThreadClocks = { wallMs: () => performance.now(), cpuMs: () => threadCpuMs() };

/** By wall time it is known which policies cannot be too heavy: nearly all. What the others spend on a core is read with each decision. */
export function createPolicyLoads({ wallMs, cpuMs }: ThreadClocks): PolicyLoads {
  const walls = new WeakMap<CompiledPolicy, LastMinute>();
  const spent = new Map<CompiledPolicy, LastMinute>();
  const active = new Set<CompiledPolicy>();
  let dueMs = 0;
  const wallOf = (policy: CompiledPolicy): LastMinute => {
    const known = walls.get(policy) ?? new LastMinute();
    walls.set(policy, known);
    return known;
  };
  const onCore = <T>(policy: CompiledPolicy, monotonicMs: number, decision: () => T): T => {
    const known = spent.get(policy) ?? new LastMinute();
    spent.set(policy, known);
    const beginMs = cpuMs();
    const decided = decision();
    const tookMs = cpuMs() - beginMs;
    known.add(tookMs, monotonicMs);
    active.add(policy);
    dueMs += tookMs;
    return decided;
  };
  const sums = (monotonicMs: number): Spender[] => {
    const all = [...spent].map(([policy, minute]) => ({ policy, taken: minute.sum(monotonicMs) }));
    for (const { policy, taken } of all) if (taken.count === 0) spent.delete(policy);
    return all;
  };
  return {
    measure: (policy, monotonicMs, decision) => {
      const wall = wallOf(policy);
      const beginMs = wallMs();
      const decided = isHeavy(wall.sum(monotonicMs)) ? onCore(policy, monotonicMs, decision) : decision();
      wall.add(wallMs() - beginMs, monotonicMs);
      return decided;
    },
    isDue: () => dueMs >= DUE_MS,
    takeExceeded: (monotonicMs) => {
      if (active.size === 0) return NONE_EXCEEDED;
      const heavy = sums(monotonicMs).filter(({ taken }) => isHeavy(taken));
      const exceeded = overTheirSum(heavy, ({ policy, taken }) => active.has(policy) && taken.count >= LEAST_DECISIONS);
      active.clear();
      dueMs = 0;
      return exceeded;
    },
  };
}

interface Spender {
  readonly policy: CompiledPolicy;
  readonly taken: Taken;
}

const NONE_EXCEEDED: ReadonlyMap<CompiledPolicy, Taken> = new Map();

function isHeavy({ count, ms }: Taken): boolean {
  return ms > count * HEAVY_DECISION_MS;
}

/** Of each namespace, the heaviest until the others are within the sum; each of the cluster's policies answers for itself. */
function overTheirSum(
  heavy: readonly Spender[],
  mayBeNamed: (spender: Spender) => boolean,
): ReadonlyMap<CompiledPolicy, Taken> {
  const left = new Map<string, number>();
  const scopeOf = ({ selection, key }: CompiledPolicy): string => selection.namespace ?? `cluster/${key}`;
  for (const { policy, taken } of heavy) left.set(scopeOf(policy), (left.get(scopeOf(policy)) ?? 0) + taken.ms);
  const exceeded = new Map<CompiledPolicy, Taken>();
  for (const { policy, taken } of heavy.filter(mayBeNamed).sort((a, b) => b.taken.ms - a.taken.ms)) {
    const sumMs = left.get(scopeOf(policy)) ?? 0;
    if (sumMs <= HEAVY_SUM_MS) continue;
    exceeded.set(policy, taken);
    left.set(scopeOf(policy), sumMs - taken.ms);
  }
  return exceeded;
}

const STEP_MS = 10_000;

/** Sums of the last minute, in steps: up to one of them is missing at its beginning. */
class LastMinute {
  #steps: { readonly step: number; count: number; ms: number }[] = [];

  add(ms: number, monotonicMs: number): void {
    const step = Math.floor(monotonicMs / STEP_MS);
    const last = this.#steps.at(-1);
    if (last?.step === step) {
      last.count += 1;
      last.ms += ms;
    } else this.#steps = [...this.#steps.filter((one) => isOfMinute(one.step, step)), { step, count: 1, ms }];
  }

  sum(monotonicMs: number): Taken {
    const now = Math.floor(monotonicMs / STEP_MS);
    const sum = { count: 0, ms: 0 };
    for (const { step, count, ms } of this.#steps) {
      if (!isOfMinute(step, now)) continue;
      sum.count += count;
      sum.ms += ms;
    }
    return sum;
  }
}

function isOfMinute(step: number, now: number): boolean {
  return step > now - MINUTE_MS / STEP_MS;
}
