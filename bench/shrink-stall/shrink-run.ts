// One shrink of 4 GiB to 2 GiB with data all over the device and a checksummed writer beside it. A steady writer deletes as much as
// it writes; a hostile one deletes nothing, and writes ten times as fast from the moment that the shrink begins.
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { verifyFiles } from "../../demo/show/script/verify.ts";
import { followWriter, type Manifest, type Writer } from "../../demo/show/writers/writer.ts";
import type { LastOperation } from "../../src/contracts/kinds/filesystem-layout.ts";
import { GIB, MIB, parseQuantity } from "../../src/contracts/quantities/quantity.ts";
import { DEMO_PATH } from "../../test/harness/bundle-process.ts";
import { remount } from "../../test/harness/lifecycle.ts";
import type { Stack } from "../../test/harness/stack.ts";
import {
  applyPolicy,
  createVolume,
  deleteVolume,
  labelClaim,
  layoutOf,
  type TestVolume,
  waitForSize,
} from "../../test/harness/volume.ts";
import { waitFor } from "../../test/harness/wait-for.ts";

export const WRITER_MBPS = 60;
const HOSTILE_MBPS = 10 * WRITER_MBPS;
const FULL_BYTES = 4 * GIB;
const TARGET_BYTES = 2 * GIB;
/** Filled at a rate that leaves the reserve, two seconds of the peak, small enough for the shrink that follows. */
const FILL_MBPS = 200;
const FILL_BYTES = 2000 * MIB;
/** Every other file goes, so that what stays lies all over the device. */
const KEPT_NTH = 2;
const DELETION_INTERVAL_MS = 500;
/** The writer's rate is known to the agent before the shrink begins. */
const LEAD_IN_MS = 3000;
const END_LIMIT_MS = 300_000;

export interface ShrinkRun {
  readonly hostile: boolean;
  readonly outcome: string;
  /** From the moment that it was seen to begin. */
  readonly shrinkMs: number;
  readonly maxStallMs: number;
  readonly writtenBytes: number;
  readonly corruptBytes: number;
  readonly readOnly: boolean;
  readonly askedBytes: number;
  readonly reclaimedBytes: number;
}

export interface ShrinkClaim {
  readonly name: string;
  readonly storageClassName: string;
}

export async function runShrink(
  stack: Stack,
  { name, storageClassName }: ShrinkClaim,
  hostile: boolean,
): Promise<ShrinkRun> {
  await applyPolicy(stack, "shrink-stall", {
    mode: { extend: "Enforce", shrink: "Enforce" },
    limits: { min: "1Gi", max: "10Gi" },
    rules: [
      { name: "full", action: "Extend", when: 'volume.labels["size"] == "full"', to: "4Gi" },
      { name: "extend-at-85", action: "Extend", when: "volume.usedRatio >= 0.85", by: "512Mi" },
      { name: "shrink", action: "Shrink", when: 'volume.labels["size"] == "small"', to: "2Gi" },
    ],
    behavior: {
      extend: { cooldown: "0s", minStep: "256Mi" },
      shrink: { stabilization: "0s", cooldown: "0s", minStep: "256Mi" },
    },
  });
  const volume = await createVolume(stack, name, {
    request: "2Gi",
    labels: { size: "full" },
    storageClassName,
  });
  try {
    await waitForSize(stack, volume, FULL_BYTES);
    const old = await fill(volume);
    return await shrinkUnderWriter(stack, volume, old, hostile);
  } finally {
    await deleteVolume(stack, volume);
  }
}

/** Files of the volume's past; every other one is deleted. */
async function fill(volume: TestVolume): Promise<Manifest> {
  const directory = join(volume.mountPath, "old");
  const writer = startWriter(directory, FILL_MBPS, 1);
  await waitFor("the volume to be filled", () => (writer.totals().writtenBytes >= FILL_BYTES ? true : undefined), {
    limitMs: END_LIMIT_MS,
  });
  await writer.stop();
  assertNoErrors(writer);
  const kept = new Map([...writer.manifest].filter((_, index) => index % KEPT_NTH === 0));
  for (const name of readdirSync(directory)) if (!kept.has(name)) rmSync(join(directory, name));
  return kept;
}

async function shrinkUnderWriter(
  stack: Stack,
  volume: TestVolume,
  old: Manifest,
  hostile: boolean,
): Promise<ShrinkRun> {
  const directory = join(volume.mountPath, "new");
  const writer = startWriter(directory, WRITER_MBPS, 2);
  const deleting = setInterval(() => {
    if (!hostile) writer.send({ deleteOldest: (WRITER_MBPS * 1_000_000 * DELETION_INTERVAL_MS) / 1000 });
  }, DELETION_INTERVAL_MS);
  try {
    await sleep(LEAD_IN_MS);
    await labelClaim(stack, volume, { size: "small" });
    await waitForShrinkToBegin(stack, volume);
    const beganMs = performance.now();
    if (hostile) writer.send({ rate: HOSTILE_MBPS * 1_000_000 });
    const ended = await waitForShrinkToEnd(stack, volume);
    const shrinkMs = performance.now() - beganMs;
    await labelClaim(stack, volume, { size: "as-it-is" });
    clearInterval(deleting);
    await writer.stop();
    const readOnly = isReadOnly(volume);
    await remount(stack, volume);
    const verified = [await verify(join(volume.mountPath, "old"), old), await verify(directory, writer.manifest)];
    return {
      hostile,
      outcome: `${ended.outcome}${writer.errors().length > 0 ? `, ${writer.errors().length} writes refused` : ""}`,
      shrinkMs,
      maxStallMs: writer.totals().maxWriteStallMs,
      writtenBytes: verified.reduce((sum, { bytes }) => sum + bytes, 0),
      corruptBytes: verified.reduce((sum, { corruptBytes }) => sum + corruptBytes, 0),
      readOnly,
      askedBytes: FULL_BYTES - TARGET_BYTES,
      reclaimedBytes: FULL_BYTES - parseQuantity(ended.reached),
    };
  } finally {
    clearInterval(deleting);
    if (writer.running()) await writer.stop();
  }
}

/** The bundle's own unaware writer. */
function startWriter(directory: string, rateMBps: number, seed: number): Writer {
  mkdirSync(directory);
  const flags = ["--directory", directory, "--rate-bytes", String(rateMBps * 1_000_000), "--seed", String(seed)];
  const stdio = ["pipe", "pipe", "inherit"] as const;
  return followWriter(spawn(process.execPath, [DEMO_PATH, "writer", ...flags], { stdio: [...stdio] }));
}

function assertNoErrors(writer: Writer): void {
  const [error] = writer.errors();
  if (error !== undefined) throw new Error(`the writer was refused: ${error.message}`);
}

function waitForShrinkToBegin(stack: Stack, volume: TestVolume): Promise<true> {
  const look = async (): Promise<true | undefined> => {
    const { operation, lastOperation } = (await layoutOf(stack, volume)).status ?? {};
    return operation?.kind === "Shrink" || lastOperation?.kind === "Shrink" ? true : undefined;
  };
  return waitFor("the shrink to begin", look, { limitMs: END_LIMIT_MS, intervalMs: 5 });
}

function waitForShrinkToEnd(stack: Stack, volume: TestVolume): Promise<LastOperation> {
  const look = async (): Promise<LastOperation | undefined> => {
    const { lastOperation } = (await layoutOf(stack, volume)).status ?? {};
    return lastOperation?.kind === "Shrink" ? lastOperation : undefined;
  };
  return waitFor("the shrink to end", look, { limitMs: END_LIMIT_MS, intervalMs: 5 });
}

function isReadOnly({ mountPath }: TestVolume): boolean {
  if (!existsSync(mountPath)) throw new Error(`${mountPath} is gone`);
  const mount = readFileSync("/proc/self/mounts", "utf8")
    .split("\n")
    .map((line) => line.split(" "))
    .find(([, path]) => path === mountPath);
  if (mount === undefined) throw new Error(`${basename(mountPath)} is not mounted`);
  return (mount[3] ?? "").split(",").includes("ro");
}

async function verify(directory: string, manifest: Manifest): Promise<{ bytes: number; corruptBytes: number }> {
  const { bytesVerified } = await verifyFiles(directory, manifest);
  const bytes = [...manifest.values()].reduce((sum, file) => sum + file.bytes, 0);
  return { bytes, corruptBytes: bytes - bytesVerified };
}
