// The engine's own limits, beyond any policy: how many changes a second it makes, and how long it decides at a stretch.
import { readFileSync } from "node:fs";
import { createContext, Script } from "node:vm";

// A token bucket: so many a second on average, no burst larger than a second's worth. Time is handed in, of a clock that never jumps: with
// one that was set back it would add nothing for as long.

export interface RateLimit {
  /** Takes one when there is one. */
  take(monotonicMs: number): boolean;
  /** In how long to ask again where there was none: each who asks gets a turn of its own, at the rate at which there are more. */
  turnMs(monotonicMs: number): number;
}

/** The first turn of those that found none. */
const FIRST_TURN_MS = 1000;

export function createRateLimit(perSecond: number): RateLimit {
  let tokens = perSecond;
  let refilledAtMs = Number.NEGATIVE_INFINITY;
  let lastTurnMs = Number.NEGATIVE_INFINITY;
  return {
    turnMs: (monotonicMs) => {
      lastTurnMs = Math.max(lastTurnMs + 1000 / perSecond, monotonicMs + FIRST_TURN_MS);
      return lastTurnMs - monotonicMs;
    },
    take: (monotonicMs) => {
      if (monotonicMs > refilledAtMs) {
        tokens = Math.min(perSecond, tokens + ((monotonicMs - refilledAtMs) / 1000) * perSecond);
        refilledAtMs = monotonicMs;
      }
      if (tokens < 1) return false;
      tokens -= 1;
      return true;
    },
  };
}

// Ends synchronous work that takes too long, at any instruction: what a static cost limit has missed must not stop the engine.
// The work is interrupted as by a throw, so it must leave nothing half-changed: pure functions only.

/** Work that its time has ended, and what that took. */
export class Interrupted {
  /** What the thread has spent on cores in this time: little, where its process was throttled or stopped. */
  readonly cpuMs: number;
  readonly wallMs: number;

  constructor(cpuMs: number, wallMs: number) {
    this.cpuMs = cpuMs;
    this.wallMs = wallMs;
  }
}

interface TimeLimit {
  /** What the work returns, or how it was ended; `attempt` counts from 0, and each has twice the time of the one before. Its throws pass. */
  attempt<T>(work: () => T, attempt?: number): T | Interrupted;
  /**
   * What the work returns, or "too slow". Its own throws pass. Work whose time has passed while the process was stopped or had no core is begun
   * again, with more time: it is not at fault.
   */
  run<T>(work: () => T): T | "too slow";
}

/** Of the limit, what the work must have spent on a core to be at fault: more than a machine that has two processes for each core leaves it. */
const SPENT_SHARE = 0.4;
/** Of a machine that gives the thread an eighth of a core, no more time brings more. */
const MOST_TIMES = 8;

/** `limitMs` of wall time for one run; a run costs about 0.1 ms by itself, so it should hold many decisions. */
export function createTimeLimit(limitMs: number): TimeLimit {
  const script = new Script("work()");
  const context = createContext({ work: undefined });
  const attempt = <T>(work: () => T, attempts = 0): T | Interrupted => {
    context["work"] = work;
    const [beginMs, beginCpuMs] = [performance.now(), threadCpuMs()];
    try {
      return script.runInContext(context, { timeout: limitMs * Math.min(MOST_TIMES, 2 ** attempts) }) as T;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error;
      return new Interrupted(threadCpuMs() - beginCpuMs, performance.now() - beginMs);
    }
  };
  return {
    attempt,
    run: (work) => {
      for (let attempts = 0, spentMs = 0; ; attempts += 1) {
        const ended = attempt(work, attempts);
        if (!(ended instanceof Interrupted)) return ended;
        spentMs += ended.cpuMs;
        if (spentMs >= limitMs * SPENT_SHARE) return "too slow";
      }
    },
  };
}

/**
 * What this thread has spent on cores, milliseconds: it stands still while the thread does, and threads that collect garbage do not count.
 * Source: the kernel's Documentation/scheduler/sched-stats.rst. Reading it takes longer than a decision: it is not for each of them.
 */
export function threadCpuMs(path = "/proc/thread-self/schedstat"): number {
  const spentNs = Number(textOf(path).split(" ")[0]);
  if (spentNs > 0) return spentNs / 1e6;
  // A kernel that keeps no such figures, or says 0: the whole process is the next best.
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
