// The load: one file written from end to end and synced, read from end to end with nothing of it in memory, and then written in
// random places, each write synced. Through the page cache, as programs do it.
import { join } from "node:path";
import { runProgram } from "../../test/cluster/run-program.ts";
import type { FreshFilesystem } from "./fresh-filesystem.ts";

export const FIGURES = ["sequentialWriteMBps", "sequentialReadMBps", "randomWriteIops", "fsyncP99Ms"] as const;
export type Figures = Readonly<Record<(typeof FIGURES)[number], number>>;

const FILE = "--size=1g";
/** A quarter of the file. */
const RANDOM = ["--size=256m", "--fsync=1", "--time_based", "--runtime=10"];
const TIME_LIMIT_MS = 300_000;
const NS_PER_MS = 1_000_000;

interface FioJob {
  readonly read: { readonly bw_bytes: number };
  readonly write: { readonly bw_bytes: number; readonly iops: number };
  readonly sync: { readonly lat_ns: { readonly percentile: Readonly<Record<string, number>> } };
}

export async function measureFilesystem({ mountPath, dropCache }: FreshFilesystem): Promise<Figures> {
  const file = join(mountPath, "file");
  const written = await fio(file, ["--rw=write", "--bs=128k", FILE, "--fallocate=none", "--end_fsync=1"]);
  await dropCache();
  const read = await fio(file, ["--rw=read", "--bs=128k", FILE]);
  const random = await fio(file, ["--rw=randwrite", "--bs=8k", ...RANDOM]);
  return {
    sequentialWriteMBps: written.write.bw_bytes / 1_000_000,
    sequentialReadMBps: read.read.bw_bytes / 1_000_000,
    randomWriteIops: random.write.iops,
    fsyncP99Ms: (random.sync.lat_ns.percentile["99.000000"] ?? Number.NaN) / NS_PER_MS,
  };
}

/** Before it begins it drops what the page cache has of the file. */
async function fio(file: string, load: readonly string[]): Promise<FioJob> {
  const how = ["--ioengine=psync", "--direct=0", "--invalidate=1", "--randrepeat=1", "--output-format=json"];
  const args = ["--name=load", `--filename=${file}`, ...how, ...load];
  const said = await runProgram("fio", args, { timeLimitMs: TIME_LIMIT_MS });
  const { jobs } = JSON.parse(said) as { jobs: FioJob[] };
  const [job] = jobs;
  if (job === undefined) throw new Error(`fio ${args.join(" ")} told of no job: ${said}`);
  return job;
}
