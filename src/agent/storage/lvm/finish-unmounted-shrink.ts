// Ends a shrink of an unmounted filesystem that was interrupted, one way or the other, before it is mounted: taken back by its snapshot, or
// carried to its end where the smaller filesystem was found to be whole. Every step is one that a second call does again. The shrink's
// record is written before each step that it describes, and gone only when nothing of the shrink is left.

import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { GUARD_TAG } from "../../../contracts/names.ts";
import { shortened } from "../../../contracts/printable.ts";
import { waitUntil } from "../../../platform/process/async/pause.ts";
import { runningCommands } from "../../../platform/process/effects/command-port.ts";
import { waitForExclusive } from "../block/probe-device.ts";
import { mountedAnywhere } from "../filesystem/devices-and-mounts.ts";
import { readExt4State } from "../filesystem/superblocks.ts";
import type { LvmMember, LvmVolume, VolumeIdentity } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import type { Tools } from "../tools.ts";
import {
  decideFinish,
  type Finish,
  type UnmountedShrinkRecord,
  unmountedShrinkRecord,
} from "./decide-unmounted-shrink.ts";
import { deviceOf, findVolume, UNMOUNTED_SHRINK_TAG } from "./logical-volume.ts";
import { askLvmd, type LvmHost, nameOf } from "./lvm-host.ts";
import { endReduction, reduce } from "./reduce.ts";

/**
 * Does nothing where no shrink is under way. Throws ShrinkOutcomeUnknown where the volume must not be mounted, WaitingForMember where lvmd
 * does not know.
 */
export async function finishUnmountedShrink(host: LvmHost, volume: LvmVolume): Promise<void> {
  if (volume.fsType !== "ext4") return;
  const record = readUnmountedShrink(host, volume);
  const finish = await decideNow(host, volume, record);
  if (finish.act === "Nothing") return;
  if (finish.act === "Unknown") throw uncertain(host, volume, finish.message);
  if (finish.act === "Wait")
    throw new StorageError("WaitingForMember", `${nameOf(volume)} of ${volume.handle}: ${finish.message}`);
  if (record === undefined) throw new Error(`bug: ${finish.act} of ${volume.handle} without a record`);
  switch (finish.act) {
    case "Forget":
      return forget(host, volume, record);
    case "RollBack":
      return rollBack(host, volume, record);
    case "Complete":
      return complete(host, volume, record);
  }
}

/** The same where this node has a record; without a record lvmd is not asked. */
export async function finishRecordedShrink(host: LvmHost, volume: LvmVolume): Promise<void> {
  if (readUnmountedShrink(host, volume) !== undefined) await finishUnmountedShrink(host, volume);
}

/** Of a volume that is about to be removed with its data. */
export async function forgetUnmountedShrink(host: LvmHost, volume: LvmMember): Promise<void> {
  const record = readUnmountedShrink(host, volume);
  if (record === undefined) return;
  await askLvmd(volume, host.lvmd.wipeAndRemove(volume.deviceClass, record.snapshot));
  await host.files.remove("unmounted-shrink/forget", unmountedShrinkPath(host, volume));
}

async function decideNow(host: LvmHost, volume: LvmVolume, record: UnmountedShrinkRecord | undefined): Promise<Finish> {
  const found = await findToLookAt(host, volume, record);
  const device = found && deviceOf(found);
  return decideFinish({
    record,
    tagged: found?.tags.includes(UNMOUNTED_SHRINK_TAG) === true,
    mounted: device !== undefined && mountedAnywhere(device) !== undefined,
    filesystem: device === undefined ? "Inactive" : ownFilesystem(volume, device),
  });
}

/**
 * After a reboot the volume may not be active, and its filesystem must be read. One that is being rolled back is activated by lvmd at the
 * end.
 */
async function findToLookAt(
  host: LvmHost,
  volume: LvmVolume,
  record: UnmountedShrinkRecord | undefined,
): ReturnType<typeof findVolume> {
  const found = await findVolume(host, volume);
  if (found === undefined || deviceOf(found) !== undefined) return found;
  if (record?.phase !== "Guarded" && record?.phase !== "Proven") return found;
  await askLvmd(volume, host.lvmd.activate(volume.deviceClass, volume.volumeID));
  return findVolume(host, volume);
}

function ownFilesystem({ fsid }: LvmVolume, device: string): ReturnType<typeof readExt4State> {
  const filesystem = readExt4State(device);
  return filesystem?.fsid === fsid ? filesystem : undefined;
}

async function forget(host: LvmHost, volume: LvmVolume, { snapshot }: UnmountedShrinkRecord): Promise<void> {
  const { deviceClass, volumeID } = volume;
  await askLvmd(volume, host.lvmd.wipeAndRemove(deviceClass, snapshot));
  await askLvmd(volume, host.lvmd.removeTag(deviceClass, volumeID, UNMOUNTED_SHRINK_TAG));
  await host.files.remove("unmounted-shrink/forget", unmountedShrinkPath(host, volume));
}

/** The record comes first: a volume that is released on the way cannot be read, and with this record need not be. */
async function rollBack(host: LvmHost, volume: LvmVolume, record: UnmountedShrinkRecord): Promise<void> {
  const { lvmd, files, tools } = host;
  const { deviceClass, volumeID } = volume;
  const before = await activeDevice(host, volume);
  if (before !== undefined) {
    await waitForTools(volume, before);
    await waitForExclusive(volume, before);
  }
  const rollingBack = unmountedShrinkText({ ...record, phase: "RollingBack" });
  await files.writeWhole("unmounted-shrink/record-rolling-back", unmountedShrinkPath(host, volume), rollingBack);
  await askLvmd(volume, lvmd.mergeSnapshot(deviceClass, volumeID, record.snapshot));
  const device = await activeDevice(host, volume);
  if (device === undefined)
    throw new StorageError(
      "WaitingForMember",
      `${nameOf(volume)} of ${volume.handle} was rolled back, and is not active`,
    );
  const filesystem = ownFilesystem(volume, device);
  if (filesystem?.sizeBytes !== record.filesystemBytes)
    throw uncertain(
      host,
      volume,
      `a shrink of it was rolled back, and its superblock says ${filesystem?.sizeBytes} bytes, and not ${record.filesystemBytes}`,
    );
  const complaint = await checkFilesystem(tools, device);
  if (complaint !== undefined)
    throw uncertain(host, volume, `a shrink of it was rolled back, and e2fsck finds fault: ${complaint}`);
  await askLvmd(volume, lvmd.removeTag(deviceClass, volumeID, `${GUARD_TAG}=${volumeID}`));
  // It is as it was at the beginning. A record whose removal a power cut takes back must not speak of a way back after the next mount.
  const rolledBack = unmountedShrinkText({ ...record, phase: "Begun" });
  await files.writeWhole("unmounted-shrink/record-rolled-back", unmountedShrinkPath(host, volume), rolledBack);
  await forget(host, volume, record);
}

/** The volume may stay as it is: what counts is that nothing cuts it later. */
async function complete(host: LvmHost, volume: LvmVolume, record: UnmountedShrinkRecord): Promise<void> {
  await endReduction(host, volume);
  const found = await findVolume(host, volume);
  const device = found && deviceOf(found);
  if (device !== undefined && found?.sizeBytes === record.fromBytes)
    try {
      await reduce(host, { ...volume, device }, record.fromBytes, record.toBytes);
    } catch (error) {
      if (!(error instanceof StorageError) || error.code === "WaitingForMember") throw error;
      await endReduction(host, volume);
    }
  await forget(host, volume, record);
}

async function activeDevice(host: LvmHost, volume: LvmVolume): Promise<string | undefined> {
  const found = await findVolume(host, volume);
  return found && deviceOf(found);
}

function uncertain(host: LvmHost, volume: LvmVolume, why: string): StorageError {
  return new StorageError(
    "ShrinkOutcomeUnknown",
    `compare it with its snapshot, keep one, then delete ${unmountedShrinkPath(host, volume)} and tag ${UNMOUNTED_SHRINK_TAG}: ${why}`,
  );
}

const CHANGING: readonly string[] = ["e2fsck", "resize2fs"];
const LIMIT_MS = 20_000;
const INTERVAL_MS = 100;

/**
 * Waits for what a dead agent has begun on the device and that still runs: it may not even have opened it yet. Throws DeviceBusy where one
 * goes on for longer.
 */
async function waitForTools(volume: VolumeIdentity, device: string): Promise<void> {
  if (await waitUntil(async () => (await leftoverTool(device)) === undefined, LIMIT_MS, INTERVAL_MS)) return;
  throw new StorageError(
    "DeviceBusy",
    `${(await leftoverTool(device)) ?? "a command"} of a former agent still runs on ${volume.handle}; wait until it has ended, or end it`,
  );
}

async function leftoverTool(device: string): Promise<string | undefined> {
  for await (const { pid, words } of runningCommands(CHANGING)) {
    if (words === undefined)
      throw new StorageError("DeviceBusy", `process ${pid} changes a filesystem, and which one cannot be read`);
    const [program = "", ...args] = words;
    if (CHANGING.includes(basename(program)) && args.includes(device)) return `${program} (process ${pid})`;
  }
  return undefined;
}

/** A check reads all of a filesystem's tables: of terabytes on a slow disk it takes its time. */
export const CHECK_LIMIT_MS = 2 * 3_600_000;
const SAID_LIMIT_CHARACTERS = 500;

/** Undefined: it is, though it may be that it could be better. Else what e2fsck says. Throws StorageError where it does not end. */
export async function checkFilesystem(tools: Tools, device: string): Promise<string | undefined> {
  const { exitCode, stdout, stderr } = await tools.query(
    "e2fsck",
    ["-f", "-n", "-E", "fixes_only", device],
    CHECK_LIMIT_MS,
  );
  if (exitCode === 0) return undefined;
  const said = `${stdout}\n${stderr}`.split("\n").filter((line) => line !== "" && !/^(Pass \d|e2fsck \d)/.test(line));
  return shortened(`exit ${exitCode}: ${said.join("; ")}`, SAID_LIMIT_CHARACTERS);
}

export function unmountedShrinkPath({ recordDirectory }: LvmHost, { volumeID }: LvmMember): string {
  return join(recordDirectory, `${volumeID}.unmounted-shrink.json`);
}

export function unmountedShrinkText(record: UnmountedShrinkRecord): string {
  return `${JSON.stringify(record, null, 2)}\n`;
}

/** Undefined where no shrink is under way. Throws ShrinkOutcomeUnknown where the record cannot be read. */
export function readUnmountedShrink(host: LvmHost, volume: LvmMember): UnmountedShrinkRecord | undefined {
  const path = unmountedShrinkPath(host, volume);
  if (!existsSync(path)) return undefined;
  try {
    return unmountedShrinkRecord.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch (error) {
    throw new StorageError(
      "ShrinkOutcomeUnknown",
      `restore ${path}, or run e2fsck and delete it with tag ${UNMOUNTED_SHRINK_TAG}: this record is unreadable`,
      error,
    );
  }
}
