// Orderly ends: what was started is stopped in reverse order, within a limit; a process that cannot (a thread hangs in the
// kernel) ends itself by SIGKILL, since process.exit never returns then.
import type { Logger } from "./log.ts";

const SHUTDOWN_LIMIT_MS = 10_000;

export interface Stoppable {
  readonly name: string;
  stop(): Promise<void> | void;
}

/** Resolves on SIGTERM or SIGINT; a second signal ends the process at once. */
export function untilSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let seen = false;
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      process.on(signal, () => {
        if (seen) process.kill(process.pid, "SIGKILL");
        seen = true;
        resolve(signal);
      });
    }
  });
}

/** Stops in reverse order of the list, logs what fails, and ends the process. */
export async function stopAll(started: readonly Stoppable[], log: Logger): Promise<never> {
  setTimeout(() => process.kill(process.pid, "SIGKILL"), SHUTDOWN_LIMIT_MS).unref();
  for (const { name, stop } of [...started].reverse()) {
    try {
      await stop();
    } catch (error) {
      log.error({ part: name, err: error }, "could not be stopped");
    }
  }
  process.exit(0);
}
