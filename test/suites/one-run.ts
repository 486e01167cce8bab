// One run of suites at a time in a work tree: each begins by removing what the one before has noted in .tidemark.
import { withProcessLock } from "../cluster/process-lock.ts";

const LOCK = ".tidemark/run.lock";

/** Ends with 1 and says who runs, where another process that lives does. */
export async function asOnlyRun(work: () => Promise<void>): Promise<void> {
  const held = (pid: number): Error => new HeldError(`process ${pid} runs suites in this tree already: ${LOCK}`);
  await withProcessLock(LOCK, held, work).catch((error: unknown) => {
    if (!(error instanceof HeldError)) throw error;
    process.stderr.write(`Wait until it has ended, or end it: ${error.message}\n`);
    process.exitCode = 1;
  });
}

class HeldError extends Error {}
