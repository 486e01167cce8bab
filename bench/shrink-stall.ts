// How long a writer stalls while its filesystem shrinks under it, and whether it ever loses a byte: a checksummed 60 MB/s writer
// beside data that has to be moved; in every other run it tries to outgrow the shrink. RUNS=100 for the figure in the docs.

import { startStack } from "../test/harness/stack.ts";
import { type Benchmark, round, type Say, settingFromEnvironment } from "./benchmark.ts";
import { runShrink, type ShrinkRun, WRITER_MBPS } from "./shrink-stall/shrink-run.ts";

const RUNS = 20;
/** Where "on disk" is. */
const DISK_BASE = "/var/tmp/tidemark-bench";

export const shrinkStallBenchmark: Benchmark = async (say) => {
  const runs = settingFromEnvironment("RUNS", RUNS);
  const inMemory = await runAll(runs, "memory", undefined, say);
  const onDisk = await runAll(settingFromEnvironment("DISK_RUNS", runs), "disk", DISK_BASE, say);
  return { ...figures(inMemory), disk: figures(onDisk) };
};

async function runAll(runs: number, place: string, base: string | undefined, say: Say): Promise<ShrinkRun[]> {
  const stack = await startStack({ initialSize: "1Gi", ...(base === undefined ? {} : { base }) });
  const done: ShrinkRun[] = [];
  try {
    for (let index = 0; index < runs; index += 1) {
      const run = await runShrink(stack, `${place}-${index}`, index % 2 === 1);
      done.push(run);
      const kind = run.hostile ? "outgrown" : "steady";
      say(
        `${place} ${index + 1}/${runs} ${kind}: ${run.outcome}, longest write ${round(run.maxStallMs, 0)} ms, ` +
          `${run.corruptBytes} of ${run.writtenBytes} bytes corrupt, ${round(run.reclaimedBytes / 2 ** 20, 0)} MiB given back`,
      );
    }
  } catch (error) {
    say(stack.tellLogs());
    throw error;
  } finally {
    await stack.close();
  }
  return done;
}

function figures(runs: readonly ShrinkRun[]) {
  const steady = runs.filter(({ hostile }) => !hostile);
  const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
  const reclaimed = sum(steady.map(({ reclaimedBytes }) => reclaimedBytes));
  return {
    runs: runs.length,
    writerMBps: WRITER_MBPS,
    maxStallMs: round(Math.max(...runs.map(({ maxStallMs }) => maxStallMs)), 1),
    corruptBytes: sum(runs.map(({ corruptBytes }) => corruptBytes)),
    readOnlyRemounts: runs.filter(({ readOnly }) => readOnly).length,
    reclaimedRatio: round(reclaimed / sum(steady.map(({ askedBytes }) => askedBytes)), 3),
  };
}
