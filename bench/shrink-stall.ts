// How long a writer stalls while its filesystem shrinks under it, and whether it ever loses a byte: a checksummed 60 MB/s writer
// beside data that has to be moved; in every other run it tries to outgrow the shrink. RUNS=100 for the figure in the docs. On loop files,
// and on logical volumes of real LVM, which lvmd reduces behind the filesystem.

import { LOOP_CLASS_NAME } from "../demo/stand-ins/bootstrap.ts";
import { GIB } from "../src/contracts/quantities/quantity.ts";
import { LVM_CLASS_NAME } from "../test/harness/lvm-of-stack.ts";
import { type StackOptions, startStack } from "../test/harness/stack.ts";
import { type Benchmark, quantile, round, type Say, settingFromEnvironment } from "./benchmark.ts";
import { runShrink, type ShrinkRun, WRITER_MBPS } from "./shrink-stall/shrink-run.ts";

const RUNS = 20;
/** Where "on disk" is. */
const DISK_BASE = "/var/tmp/tidemark-bench";
const LVM_GROUP_BYTES = 16 * GIB;

export const shrinkStallBenchmark: Benchmark = async (say) => {
  const runs = settingFromEnvironment("RUNS", RUNS);
  const inMemory = await runAll(runs, "memory", {}, say);
  const onDisk = await runAll(settingFromEnvironment("DISK_RUNS", runs), "disk", { base: DISK_BASE }, say);
  return { ...figures(inMemory), disk: figures(onDisk) };
};

export const lvmShrinkBenchmark: Benchmark = async (say) => {
  const runs = await runAll(settingFromEnvironment("RUNS", RUNS), "lvm", { lvm: { groupBytes: LVM_GROUP_BYTES } }, say);
  const steady = runs.filter(({ hostile }) => !hostile).map(({ shrinkMs }) => shrinkMs);
  return { ...figures(runs), p50Ms: round(quantile(steady, 0.5), 0) };
};

async function runAll(runs: number, place: string, options: StackOptions, say: Say): Promise<ShrinkRun[]> {
  const stack = await startStack({ initialSize: "1Gi", ...options });
  const storageClassName = options.lvm === undefined ? LOOP_CLASS_NAME : LVM_CLASS_NAME;
  const done: ShrinkRun[] = [];
  try {
    for (let index = 0; index < runs; index += 1) {
      const run = await runShrink(stack, { name: `${place}-${index}`, storageClassName }, index % 2 === 1);
      done.push(run);
      const kind = run.hostile ? "outgrown" : "steady";
      say(
        `${place} ${index + 1}/${runs} ${kind}: ${run.outcome} after ${round(run.shrinkMs, 0)} ms, longest write ${round(run.maxStallMs, 0)} ms, ` +
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
