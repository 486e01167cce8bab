// Turns at one thing, one at a time: namespaces take theirs after each other, so that who sends many waits behind themselves. Those whose
// time is over give up their place.
import type { Clock } from "../../platform/process/clock.ts";

export interface Turns {
  /**
   * Runs the work once it is the scope's turn, with the milliseconds that are left. Undefined: there were too many already, or the time
   * was over before. `limitMs` counts from now.
   */
  take<T>(scope: string, limitMs: number, work: (leftMs: number) => Promise<T>): Promise<T | undefined>;
}

export interface TurnLimits {
  /** That wait in one scope, and in all. */
  readonly waitingInScope: number;
  readonly waiting: number;
}

interface Waiting {
  readonly scope: string;
  /** False: too late. */
  readonly begin: (isDue: boolean) => void;
}

export function createTurns(limits: TurnLimits, clock: Pick<Clock, "monotonicMs">): Turns {
  /** By scope, in the order in which scopes have their turns. */
  const lines = new Map<string, Set<Waiting>>();
  let waiting = 0;
  let isTaken = false;

  const leave = (one: Waiting): void => {
    const line = lines.get(one.scope);
    if (line?.delete(one) !== true) return;
    waiting -= 1;
    if (line.size === 0) lines.delete(one.scope);
  };
  const pass = (): void => {
    isTaken = false;
    const [next] = lines;
    const [one] = next?.[1] ?? [];
    if (next === undefined || one === undefined) return;
    leave(one);
    // Behind all other scopes.
    if (lines.delete(next[0])) lines.set(next[0], next[1]);
    isTaken = true;
    one.begin(true);
  };
  const turnOf = (scope: string, limitMs: number): Promise<boolean> => {
    if (!isTaken) {
      isTaken = true;
      return Promise.resolve(true);
    }
    const line = lines.get(scope) ?? new Set();
    if (waiting >= limits.waiting || line.size >= limits.waitingInScope) return Promise.resolve(false);
    lines.set(scope, line);
    waiting += 1;
    return new Promise((resolve) => {
      const one: Waiting = {
        scope,
        begin: (isDue) => {
          clearTimeout(timer);
          resolve(isDue);
        },
      };
      const timer = setTimeout(() => {
        leave(one);
        one.begin(false);
      }, limitMs);
      line.add(one);
    });
  };
  return {
    take: async (scope, limitMs, work) => {
      const endMs = clock.monotonicMs() + limitMs;
      if (!(await turnOf(scope, limitMs))) return undefined;
      try {
        const leftMs = endMs - clock.monotonicMs();
        return leftMs > 0 ? await work(leftMs) : undefined;
      } finally {
        pass();
      }
    },
  };
}
