// Ends synchronous work that takes too long, at any instruction: what a static cost limit has missed must not stop the engine.
// The work is interrupted as by a throw, so it must leave nothing half-changed: pure functions only.
import { createContext, Script } from "node:vm";

export interface TimeLimit {
  /**
   * What the work returns, or "too slow". Its own throws pass. Work whose time has passed while the process was stopped or had no core is begun
   * again: it is not at fault.
   */
  run<T>(work: () => T): T | "too slow";
}

/** Of the limit, what the work must have spent on a core to be at fault: more than a machine that has two processes for each core leaves it. */
const SPENT_SHARE = 0.4;

/** `limitMs` of wall time for one run; a run costs about 0.1 ms by itself, so it should hold many decisions. */
export function createTimeLimit(limitMs: number): TimeLimit {
  const script = new Script("work()");
  const context = createContext({ work: undefined });
  return {
    run: (work) => {
      context["work"] = work;
      for (const beginMs = cpuMs(); ; ) {
        try {
          return script.runInContext(context, { timeout: limitMs }) as ReturnType<typeof work>;
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error;
          if (cpuMs() - beginMs >= limitMs * SPENT_SHARE) return "too slow";
        }
      }
    },
  };
}

/** What this process has spent on cores, milliseconds: it stands still while the process does. */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
