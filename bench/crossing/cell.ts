// One cell of the crossing benchmark: volumes of one size, filled to just under their threshold by blocks that hold no data, and a
// writer of one rate that pushes them over it.
import { execFileSync } from "node:child_process";
import { readFileSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { formatQuantity, GIB, MIB, parseQuantity } from "../../src/contracts/quantities/quantity.ts";
import type { Stack } from "../../test/harness/stack.ts";
import { applyPolicy, createVolume, deleteVolume, layoutOf, type TestVolume } from "../../test/harness/volume.ts";
import { waitFor } from "../../test/harness/wait-for.ts";
import type { LineProcess } from "./line-process.ts";
import type { Seen, Watch } from "./sampler-process.ts";
import type { Load, Written } from "./writer-process.ts";

export interface Cell {
  readonly rateMBps: number;
  readonly sizeGiB: number;
}

export interface Instruments {
  readonly stack: Stack;
  readonly storageClassName: string;
  readonly sampler: LineProcess<Watch | { stop: true }, Seen | { ready: true }>;
  readonly writer: LineProcess<Load | { stop: true }, Written>;
}

export interface Crossing {
  readonly durationMs: number;
  readonly synced: boolean;
}

export interface VolumeResult {
  readonly crossings: readonly Crossing[];
  readonly written: Written;
}

const THRESHOLD_RATIO = 0.8;
/** The writer is known to the agent by its rate before it crosses, as any writer is that does not begin at the threshold. */
const LEAD_IN_SECONDS = 1.5;
/** An extend adds so much of the writer's rate: then it crosses again after 0.8 of it. */
const STEP_SECONDS = 0.7;
const STEP_MIN_BYTES = 10 * MIB;
const GUIDED_MS = 1200;
const CROSSING_LIMIT_MS = 60_000;
const EMERGENCY_RATIO = 0.2;

/** How many crossings one volume gives: few where each makes it much larger. */
export function crossingsPerVolume({ rateMBps }: Cell): number {
  return rateMBps <= 10 ? 8 : rateMBps <= 100 ? 4 : 3;
}

/** Extends by a rule, by way of every process. */
export async function crossByRule(
  instruments: Instruments,
  cell: Cell,
  name: string,
  synced: boolean,
): Promise<VolumeResult> {
  const { stack } = instruments;
  const stepBytes = Math.max(STEP_MIN_BYTES, Math.round(cell.rateMBps * STEP_SECONDS) * MIB);
  await applyPolicy(stack, "crossing", {
    limits: { min: "256Mi", max: "64Gi", minAvailable: "16Mi" },
    rules: [
      {
        name: "extend",
        action: "Extend",
        when: `volume.usedRatio >= ${THRESHOLD_RATIO}`,
        by: formatQuantity(stepBytes),
      },
    ],
    behavior: { extend: { cooldown: "0s", minStep: formatQuantity(STEP_MIN_BYTES) } },
  });
  return withVolume(instruments, cell, name, async (volume) => {
    fillTo(volume, (capacityBytes) => capacityBytes * THRESHOLD_RATIO - leadInBytes(cell));
    await sleep(GUIDED_MS);
    const watch = { mountPath: volume.mountPath, fsid: volume.fsid, usedRatio: THRESHOLD_RATIO };
    return push(instruments, cell, volume, { watch, synced, count: crossingsPerVolume(cell) });
  });
}

/** Extends by the agent alone: the engine, which has granted it in advance, is stopped. */
export async function crossByEmergency(
  instruments: Instruments,
  cell: Cell,
  name: string,
  synced: boolean,
): Promise<VolumeResult> {
  const { stack } = instruments;
  const minAvailable = formatQuantity(Math.round(cell.sizeGiB * EMERGENCY_RATIO * 1024) * MIB);
  await applyPolicy(stack, "crossing", {
    limits: { min: "256Mi", max: "64Gi", minAvailable },
    rules: [{ name: "extend", action: "Extend", when: "volume.usedRatio >= 0.99", by: "1Gi" }],
    behavior: { extend: { cooldown: "0s", minStep: formatQuantity(256 * MIB) } },
  });
  const engine = stack.processes["policy-engine"];
  return withVolume(instruments, cell, name, async (volume) => {
    const grant = await waitFor("the emergency grant", async () => (await layoutOf(stack, volume)).spec.emergency);
    const minAvailableBytes = parseQuantity(grant.minAvailable);
    fillTo(volume, (capacityBytes) => capacityBytes - minAvailableBytes - leadInBytes(cell));
    await sleep(GUIDED_MS);
    engine.signal("SIGSTOP");
    try {
      const watch = { mountPath: volume.mountPath, fsid: volume.fsid, minAvailableBytes };
      return await push(instruments, cell, volume, { watch, synced, count: 1 });
    } finally {
      engine.signal("SIGCONT");
    }
  });
}

function leadInBytes({ rateMBps }: Cell): number {
  return rateMBps * 1_000_000 * LEAD_IN_SECONDS;
}

async function withVolume<T>(
  { stack, storageClassName }: Instruments,
  cell: Cell,
  name: string,
  use: (volume: TestVolume) => Promise<T>,
): Promise<T> {
  const volume = await createVolume(stack, name, { request: formatQuantity(cell.sizeGiB * GIB), storageClassName });
  try {
    return await use(volume);
  } finally {
    await deleteVolume(stack, volume);
  }
}

/** A file of allocated blocks without data: they count as used, and the backing file does not hold them. */
function fillTo(volume: TestVolume, usedBytes: (capacityBytes: number) => number): void {
  const { blocks, bavail, bsize } = statfsSync(volume.mountPath);
  const missingBytes = Math.floor(usedBytes(blocks * bsize) - (blocks - bavail) * bsize);
  if (missingBytes <= 0) throw new Error(`${volume.name} is too small for the writer's lead-in`);
  execFileSync("fallocate", ["--length", String(missingBytes), join(volume.mountPath, "filler")]);
  execFileSync("sync", ["--file-system", volume.mountPath]);
}

interface Push {
  readonly watch: Watch;
  readonly synced: boolean;
  readonly count: number;
}

async function push(
  { sampler, writer }: Instruments,
  { rateMBps }: Cell,
  volume: TestVolume,
  { watch, synced, count }: Push,
): Promise<VolumeResult> {
  sampler.forget();
  sampler.send(watch);
  await sampler.next(CROSSING_LIMIT_MS);
  writer.send({ path: join(volume.mountPath, "written"), bytesPerSecond: rateMBps * 1_000_000, synced });
  const crossings: Crossing[] = [];
  try {
    while (crossings.length < count) {
      const seen = await sampler.next(CROSSING_LIMIT_MS);
      if ("durationMs" in seen) crossings.push({ durationMs: seen.durationMs, synced });
    }
  } finally {
    writer.send({ stop: true });
    sampler.send({ stop: true });
  }
  const written = await writer.next(CROSSING_LIMIT_MS);
  await sampler.next(CROSSING_LIMIT_MS);
  assertWritable(volume, written);
  return { crossings, written };
}

function assertWritable(volume: TestVolume, { error }: Written): void {
  if (error !== undefined) throw new Error(`the writer on ${volume.name} was refused: ${error}`);
  const mount = readFileSync("/proc/self/mounts", "utf8")
    .split("\n")
    .find((line) => line.includes(` ${volume.mountPath} `));
  if (mount === undefined || / ro[, ]/.test(mount))
    throw new Error(`${volume.name} is not writable any more: ${mount}`);
}
