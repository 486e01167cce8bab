// Makes the ext4 of an unmounted thin volume smaller, behind a snapshot that takes back whatever goes wrong: the protocol of
// docs/architecture/shrink.md. What is decided is in decide-unmounted-shrink.ts; each step is recorded before it begins.

import { randomUUID } from "node:crypto";
import { GUARD_TAG } from "../../../contracts/names.ts";
import { formatBytes } from "../../../contracts/quantities/quantity.ts";
import { waitUntil } from "../../../platform/process/async/pause.ts";
import { waitForExclusive } from "../block/probe-device.ts";
import { mountedAnywhere } from "../filesystem/devices-and-mounts.ts";
import { type Ext4State, readExt4State } from "../filesystem/superblocks.ts";
import type { LvmVolume, ShrinkControl, UnmountedShrinkResult } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { expectSuccess, type Finished } from "../tools.ts";
import { decideGuardedShrink, type UnmountedShrinkRecord } from "./decide-unmounted-shrink.ts";
import {
  CHECK_LIMIT_MS,
  checkFilesystem,
  finishUnmountedShrink,
  unmountedShrinkPath,
  unmountedShrinkText,
} from "./finish-unmounted-shrink.ts";
import { deviceOf, findVolume, UNMOUNTED_SHRINK_TAG } from "./logical-volume.ts";
import { askLvmd, type LvmHost, nameOf, requireClass } from "./lvm-host.ts";
import { poolNameOf, poolRoom } from "./pool-room.ts";

const RESIZE_LIMIT_MS = 6 * 3_600_000;
const CLOCK_LIMIT_MS = 2000;
const CLOCK_INTERVAL_MS = 50;

/** What is to be made smaller, as it was found. */
interface Subject {
  readonly volume: LvmVolume;
  readonly device: string;
  readonly sizeBytes: number;
  readonly tags: readonly string[];
  readonly filesystem: Ext4State;
}

/** Idempotent: what an earlier call has left is finished first. Throws StorageError with the record in place where it is not ended. */
export async function shrinkUnmounted(
  host: LvmHost,
  volume: LvmVolume,
  wantedBytes: number,
  control: ShrinkControl,
): Promise<UnmountedShrinkResult> {
  await finishUnmountedShrink(host, volume);
  const subject = await look(host, volume);
  if (typeof subject === "string") return leftAsItWas(await presentBytes(host, volume), subject);
  const { sizeBytes, filesystem, device } = subject;
  const plan = decideGuardedShrink({
    fromBytes: sizeBytes,
    wantedBytes,
    grainBytes: requireClass(host, volume).sizeGrainBytes,
    filesystem,
    minimumBytes: await minimumBytes(host, device, filesystem),
    reserveBytes: control.reserveBytes(),
    pool: poolRoom(host, volume),
  });
  if (plan.act === "Refuse") return leftAsItWas(sizeBytes, plan.message);
  if (plan.act === "FloorReached")
    return { outcome: "FloorReached", sizeBytes, floorBytes: plan.floorBytes, message: plan.message };
  if (control.signal.aborted) return leftAsItWas(sizeBytes, String(control.signal.reason));
  const mountCount = await resetMountCount(host, subject);
  const record: UnmountedShrinkRecord = {
    phase: "Begun",
    snapshot: `before-shrink-${randomUUID()}`,
    fromBytes: sizeBytes,
    toBytes: plan.toBytes,
    filesystemBytes: filesystem.sizeBytes,
    mountedAtSeconds: filesystem.mountedAtSeconds,
    mountCount,
  };
  // Other volumes of the pool that are checked from here on, as all are when a node is drained, find less room in it.
  const { guards } = host;
  const guard = { pool: poolNameOf(host, volume), ...plan.guard };
  guards.add(guard);
  try {
    return await shrinkGuarded(host, subject, record, plan.leastBytes, control.signal);
  } finally {
    guards.delete(guard);
  }
}

/** Why nothing is begun, in a sentence, where it is not as it must be. Nothing is changed. */
async function look(host: LvmHost, volume: LvmVolume): Promise<Subject | string> {
  const found = await findVolume(host, volume);
  const device = found && deviceOf(found);
  if (found === undefined || device === undefined) return "it is not active on this node";
  if (volume.fsType !== "ext4") return `it has ${volume.fsType}`;
  if (!found.thin) return "it is in no thin pool, so that no snapshot could take back what goes wrong";
  // lvs(8), lv_attr.
  if (found.attr.startsWith("O")) return "a snapshot will be merged into it when it is activated next";
  await waitForExclusive(volume, device);
  const filesystem = readExt4State(device);
  if (filesystem?.fsid !== volume.fsid) return `its device ${device} has no ext4 of the UUID ${volume.fsid}`;
  if (!filesystem.isClean) return "its ext4 was not unmounted in good order";
  if (!(await isPast(host, filesystem.mountedAtSeconds)))
    return "it was mounted last in the future by the node's clock, so a later mount could not be noticed";
  const complaint = await checkFilesystem(host.tools, device);
  if (complaint !== undefined) return `e2fsck finds fault with it before anything is done: ${complaint}`;
  return { volume, device, sizeBytes: found.sizeBytes, tags: found.tags, filesystem };
}

/** Whether the clock gets past `seconds` within a limit: a mount from then on leaves another time on the filesystem. */
function isPast({ clock }: LvmHost, seconds: number): Promise<boolean> {
  return waitUntil(() => Math.floor(clock.nowMs() / 1000) > seconds, CLOCK_LIMIT_MS, CLOCK_INTERVAL_MS);
}

/**
 * e2fsck sets it to 0 as well, so that another number could not be compared afterwards. A death right after it leaves that number, which
 * says only how many mounts there were since a check.
 */
async function resetMountCount({ tools }: LvmHost, { volume, device }: Subject): Promise<number> {
  const finished = await tools.run("unmounted-shrink/reset-mount-count", "tune2fs", ["-C", "0", device]);
  expectSuccess(finished, `setting the mount count of ${nameOf(volume)} of ${volume.handle} to 0`);
  return 0;
}

const MINIMUM = /minimum size of the filesystem: (\d+)/;

/** Infinite where resize2fs does not say. */
async function minimumBytes({ tools }: LvmHost, device: string, { blockBytes }: Ext4State): Promise<number> {
  const { stdout, exitCode } = await tools.query("resize2fs", ["-P", device], CHECK_LIMIT_MS);
  const blocks = exitCode === 0 ? MINIMUM.exec(stdout)?.[1] : undefined;
  return blocks === undefined ? Number.POSITIVE_INFINITY : Number(blocks) * blockBytes;
}

async function shrinkGuarded(
  host: LvmHost,
  subject: Subject,
  record: UnmountedShrinkRecord,
  leastBytes: number,
  signal: AbortSignal,
): Promise<UnmountedShrinkResult> {
  const { volume, sizeBytes } = subject;
  try {
    await guard(host, subject, record);
    await resize(host, subject, { leastBytes, toBytes: record.toBytes }, signal);
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    await finishUnmountedShrink(host, volume);
    return leftAsItWas(sizeBytes, `it is as it was before: ${error.said}`);
  }
  const path = unmountedShrinkPath(host, volume);
  const proven = unmountedShrinkText({ ...record, phase: "Proven" });
  await host.files.writeWhole("unmounted-shrink/record-proven", path, proven);
  await finishUnmountedShrink(host, volume);
  const reachedBytes = await presentBytes(host, volume);
  if (reachedBytes <= record.toBytes) return { outcome: "Succeeded", sizeBytes: reachedBytes };
  return leftAsItWas(
    reachedBytes,
    "its filesystem was made smaller, but its volume was not; the filesystem grows back when it is mounted",
  );
}

async function guard(host: LvmHost, { volume, tags }: Subject, record: UnmountedShrinkRecord): Promise<void> {
  const { lvmd, files } = host;
  const { deviceClass, volumeID } = volume;
  const path = unmountedShrinkPath(host, volume);
  await files.writeWhole("unmounted-shrink/record-begun", path, unmountedShrinkText(record));
  await askLvmd(volume, lvmd.addTag(deviceClass, volumeID, UNMOUNTED_SHRINK_TAG));
  // Should a version of LVM leave a merged snapshot's tags to the volume, it keeps its own all the same.
  const guarding = [...tags, UNMOUNTED_SHRINK_TAG, `${GUARD_TAG}=${volumeID}`];
  const order = { name: record.snapshot, deviceClass, sourceVolume: volumeID, sizeBytes: 0, accessType: "rw" };
  await askLvmd(volume, lvmd.createSnapshot({ ...order, tags: guarding }));
  const guarded = unmountedShrinkText({ ...record, phase: "Guarded" });
  await files.writeWhole("unmounted-shrink/record-guarded", path, guarded);
}

/** Throws StorageError at the first finding that is not clean, with the filesystem in whatever state. */
async function resize(
  { tools }: LvmHost,
  { volume, device }: Subject,
  { leastBytes, toBytes }: { readonly leastBytes: number; readonly toBytes: number },
  signal: AbortSignal,
): Promise<void> {
  // The first check found the filesystem whole, so there is nothing to correct; a correction means that the first check has missed
  // something. What could only be better is left (fixes_only): it would end with 1 as well.
  const preen = ["-f", "-p", "-E", "fixes_only", device];
  const preened = await tools.run("unmounted-shrink/check", "e2fsck", preen, CHECK_LIMIT_MS, signal);
  expectClean(volume, preened);
  const size = `${toBytes / 1024}K`;
  const resized = await tools.run("unmounted-shrink/resize", "resize2fs", [device, size], RESIZE_LIMIT_MS, signal);
  expectClean(volume, resized);
  const complaint = await checkFilesystem(tools, device);
  if (complaint !== undefined) throw failed(volume, `e2fsck finds fault with the smaller filesystem: ${complaint}`);
  // What follows is recorded as proven, and is so after a power cut, too.
  expectSuccess(
    await tools.query("sync", [device], RESIZE_LIMIT_MS),
    `writing out ${nameOf(volume)} of ${volume.handle}`,
  );
  const filesystem = readExt4State(device);
  // A last block group that is too small for its own tables is left out.
  const { sizeBytes = Number.NaN } = filesystem ?? {};
  const isAsAsked = sizeBytes >= leastBytes && sizeBytes <= toBytes;
  if (filesystem?.fsid === volume.fsid && isAsAsked && mountedAnywhere(device) === undefined) return;
  throw failed(volume, `its superblock says ${sizeBytes} bytes, and not ${formatBytes(toBytes)}`);
}

function expectClean(volume: LvmVolume, { exitCode, commandLine, stdout, stderr }: Finished): void {
  if (exitCode === 0) return;
  throw failed(volume, `"${commandLine}" ended with ${exitCode}: ${`${stderr.trim()} ${stdout.trim()}`.trim()}`);
}

function failed(volume: LvmVolume, message: string): StorageError {
  return new StorageError("CommandFailed", `shrinking ${nameOf(volume)} of ${volume.handle}: ${message}`);
}

async function presentBytes(host: LvmHost, volume: LvmVolume): Promise<number> {
  return (await findVolume(host, volume))?.sizeBytes ?? 0;
}

function leftAsItWas(sizeBytes: number, message: string): UnmountedShrinkResult {
  return { outcome: "Refused", sizeBytes, message };
}
