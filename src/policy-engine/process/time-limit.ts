// Ends synchronous work that takes too long, at any instruction: what a static cost limit has missed must not stop the engine.
// The work is interrupted as by a throw, so it must leave nothing half-changed: pure functions only.
import { createContext, Script } from "node:vm";

export interface TimeLimit {
  /** What the work returns, or "too slow". Its own throws pass. */
  run<T>(work: () => T): T | "too slow";
}

/** `limitMs` of wall time for one run; a run costs about 0.1 ms by itself, so it should hold many decisions. */
export function createTimeLimit(limitMs: number): TimeLimit {
  const script = new Script("work()");
  const context = createContext({ work: undefined });
  return {
    run: (work) => {
      context["work"] = work;
      try {
        return script.runInContext(context, { timeout: limitMs }) as ReturnType<typeof work>;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "ERR_SCRIPT_EXECUTION_TIMEOUT") return "too slow";
        throw error;
      }
    },
  };
}
