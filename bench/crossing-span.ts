// How long a span stays over its threshold before a member more makes it larger: a real cluster, the member driver of the tests and
// Tidemark as it is installed, a writer on the node and an observer that looks every millisecond. SAMPLES=6 shortens it.
import { execFileSync } from "node:child_process";
import { statfsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { FilesystemLayout } from "../src/contracts/kinds/filesystem-layout.ts";
import { readAuditedWrites } from "../test/cluster/audit.ts";
import { applyObject } from "../test/e2e/apply-object.ts";
import { spanClass } from "../test/e2e/claiming-pod.ts";
import { clusterOf, startClusterUnderTest } from "../test/e2e/cluster-under-test.ts";
import { install, loadImages, logsOf } from "../test/e2e/installed-tidemark.ts";
import {
  createSpan,
  deleteSpan,
  type OwnCluster,
  type SpanInCluster,
  untilLayout,
  untilQuiet,
} from "../test/e2e/span-in-cluster.ts";
import { installMemberDriver } from "../test/member-driver/install.ts";
import { readRpcLog } from "../test/member-driver/rpc-log.ts";
import { type Benchmark, quantile, round, type Say, settingFromEnvironment } from "./benchmark.ts";
import { type LineProcess, startLineProcess } from "./crossing/line-process.ts";
import type { Seen, Watch } from "./crossing/sampler-process.ts";
import type { Load, Written } from "./crossing/writer-process.ts";
import { driverTimeMs } from "./crossing-span/driver-time.ts";
import { ownWrites } from "./crossing-span/own-writes.ts";

const SAMPLES = 30;
const RATE_BYTES_PER_SECOND = 10_000_000;
const LEAD_IN_SECONDS = 3;
const FILL_PARTS_LIMIT = 40;
const FILL_GRAIN_BYTES = 4_000_000;
const GUIDED_MS = 1500;
const THRESHOLD_RATIO = 0.8;
const CROSSING_LIMIT_MS = 120_000;
const POLICY = {
  apiVersion: "tidemark.dev/v1alpha1",
  kind: "VolumePolicy",
  metadata: { name: "crossing" },
  spec: {
    limits: { min: "2Gi", max: "8Gi", minAvailable: "64Mi" },
    rules: [{ name: "extend", action: "Extend", when: `volume.usedRatio >= ${THRESHOLD_RATIO}`, by: "1Gi" }],
    behavior: { extend: { cooldown: "0s", minStep: "1Gi" } },
  },
};

/** maxMembers is 4, and an extend by a rule never takes the spare's place. */
const KINDS = { plain: { spares: 0, crossings: 3 }, spare: { spares: 1, crossings: 2 } } as const;
type Kind = keyof typeof KINDS;

interface Sample {
  readonly kind: Kind;
  readonly durationMs: number;
  readonly driverMs: number;
  readonly writes: readonly string[];
}

interface Instruments {
  readonly tested: OwnCluster;
  readonly driverDirectory: string;
  readonly sampler: LineProcess<Watch | { stop: true }, Seen | { ready: true }>;
  readonly writer: LineProcess<Load | { stop: true }, Written>;
}

export const crossingSpanBenchmark: Benchmark = async (say) => {
  const count = settingFromEnvironment("SAMPLES", SAMPLES);
  const instruments = await start();
  const samples: Sample[] = [];
  try {
    for (const kind of Object.keys(KINDS) as Kind[]) await measureKind(instruments, kind, count, samples, say);
  } catch (error) {
    say(await logsOf(instruments.tested));
    throw error;
  } finally {
    instruments.sampler.end();
    instruments.writer.end();
    await instruments.tested.close();
  }
  return summary(samples);
};

async function start(): Promise<Instruments> {
  const started = await startClusterUnderTest();
  const tested = { ...started, cluster: clusterOf(started) };
  const driverDirectory = await installMemberDriver(tested);
  if (driverDirectory === undefined) throw new Error("the member driver of that cluster is somebody else's");
  await loadImages(tested);
  await install(tested);
  for (const kind of Object.keys(KINDS) as Kind[])
    await applyObject(tested, spanClass(`bench-${kind}`, { spareMembers: String(KINDS[kind].spares) }));
  await applyObject(tested, POLICY);
  return {
    tested,
    driverDirectory,
    sampler: startLineProcess("sampler-process.ts"),
    writer: startLineProcess("writer-process.ts"),
  };
}

async function measureKind(
  instruments: Instruments,
  kind: Kind,
  count: number,
  samples: Sample[],
  say: Say,
): Promise<void> {
  const { crossings } = KINDS[kind];
  for (let volume = 0; volume < Math.ceil(count / crossings); volume += 1) {
    const span = await createSpan(instruments.tested, `${kind}-${volume}`, `bench-${kind}`);
    for (let crossing = 0; crossing < crossings; crossing += 1) {
      const sample = await cross(instruments, span, kind, crossing);
      if (sample === undefined) {
        say(`${kind}: filling it took it over the threshold before it was looked at: no sample`);
        continue;
      }
      samples.push(sample);
      const { durationMs, driverMs, writes } = sample;
      say(
        `${kind}: ${round(durationMs, 0)} ms, of which the driver ${round(driverMs, 0)} ms; ${writes.length} writes: ${writes.join(", ")}`,
      );
    }
    await deleteSpan(instruments.tested, span);
  }
}

/**
 * Once: a writer is pushed over the threshold, and is stopped when the filesystem has become larger. Undefined: btrfs took room for its
 * own metadata while it was filled, and that has extended it already.
 */
async function cross(
  { tested, driverDirectory, sampler, writer }: Instruments,
  span: SpanInCluster,
  kind: Kind,
  index: number,
): Promise<Sample | undefined> {
  const capacityBytes = capacityOf(span);
  fill(span, index);
  const isReady = ({ spec, status }: FilesystemLayout): boolean =>
    spec.emergency !== undefined &&
    (kind === "plain" || status?.members?.some(({ state }) => state === "Spare") === true);
  await untilLayout(tested, span, "its grant, and its spare", isReady);
  await untilQuiet(tested, span);
  await sleep(GUIDED_MS);
  if (capacityOf(span) !== capacityBytes) return undefined;
  sampler.forget();
  sampler.send({ mountPath: span.mountPath, fsid: span.fsid, usedRatio: THRESHOLD_RATIO });
  await sampler.next(CROSSING_LIMIT_MS);
  writer.send({ path: join(span.mountPath, `written-${index}`), bytesPerSecond: RATE_BYTES_PER_SECOND, synced: false });
  const seen = await sampler.next(CROSSING_LIMIT_MS);
  writer.send({ stop: true });
  sampler.send({ stop: true });
  const { error } = await writer.next(CROSSING_LIMIT_MS);
  await sampler.next(CROSSING_LIMIT_MS);
  if (error !== undefined || !("durationMs" in seen)) throw new Error(`${span.name}: the writer was refused: ${error}`);
  await untilQuiet(tested, span);
  const { durationMs, endedAtMs } = seen;
  const took = { fromMs: endedAtMs - durationMs, toMs: endedAtMs };
  return {
    kind,
    durationMs,
    driverMs: driverTimeMs(readRpcLog(driverDirectory), took),
    writes: ownWrites(readAuditedWrites(tested.cluster.places), { ...took, toMs: Date.now() }),
  };
}

function capacityOf({ mountPath }: SpanInCluster): number {
  const { blocks, bsize } = statfsSync(mountPath);
  return blocks * bsize;
}

/** Allocated blocks without data count as used. By halves, since btrfs takes whole chunks for its metadata in between. */
function fill({ mountPath }: SpanInCluster, index: number): void {
  for (let part = 0; part < FILL_PARTS_LIMIT; part += 1) {
    const { blocks, bavail, bsize } = statfsSync(mountPath);
    const wantedBytes = blocks * bsize * THRESHOLD_RATIO - RATE_BYTES_PER_SECOND * LEAD_IN_SECONDS;
    const missingBytes = Math.floor(wantedBytes - (blocks - bavail) * bsize);
    if (missingBytes <= FILL_GRAIN_BYTES) return;
    const partBytes = Math.max(FILL_GRAIN_BYTES, Math.floor(missingBytes / 2));
    execFileSync("fallocate", ["--length", String(partBytes), join(mountPath, `filler-${index}-${part}`)]);
    execFileSync("sync", ["--file-system", mountPath]);
  }
}

function summary(samples: readonly Sample[]): Readonly<Record<string, unknown>> {
  const plain = samples.filter(({ kind }) => kind === "plain");
  const spare = samples.filter(({ kind }) => kind === "spare");
  const p = (values: readonly number[], ratio: number): number => round(quantile(values, ratio), 0);
  const durations = plain.map(({ durationMs }) => durationMs);
  return {
    n: plain.length,
    p50Ms: p(durations, 0.5),
    p99Ms: p(durations, 0.99),
    overheadP99Ms: p(
      plain.map(({ durationMs, driverMs }) => durationMs - driverMs),
      0.99,
    ),
    spareP99Ms: p(
      spare.map(({ durationMs }) => durationMs),
      0.99,
    ),
    apiWritesPerExtend: Math.max(...plain.map(({ writes }) => writes.length)),
    driverP50Ms: p(
      plain.map(({ driverMs }) => driverMs),
      0.5,
    ),
    spareN: spare.length,
    spareP50Ms: p(
      spare.map(({ durationMs }) => durationMs),
      0.5,
    ),
    /** The next spare is made in them, too. */
    apiWritesPerExtendWithSpare: Math.max(...spare.map(({ writes }) => writes.length)),
  };
}
