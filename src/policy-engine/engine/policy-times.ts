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
