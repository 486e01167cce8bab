// The storage port on logical volumes of this node, those with a filesystem and those without: made, grown, cut and removed by lvmd. The
// volume itself is made before the layout that names it; what is here only finds it.

import { existsSync } from "node:fs";
import { basename } from "node:path";
import { WIPE_BEGUN_TAG } from "../../../contracts/names.ts";
import { formatBytes } from "../../../contracts/quantities/quantity.ts";
import type { Clock } from "../../../platform/process/clock.ts";
import type { CommandPort } from "../../../platform/process/effects/command-port.ts";
import type { FilePort } from "../../../platform/process/effects/file-port.ts";
import type { Logger } from "../../../platform/process/log.ts";
import type { DeviceClasses, LvmdCalls } from "../../lvmd-client/lvmd-calls.ts";
import { type BlockMembers, createMovingRoom } from "../block/block-member.ts";
import { type BlockStorage, createBlockStorage } from "../block/block-storage.ts";
import { readMemberRecord } from "../block/member-record.ts";
import { probe } from "../block/probe-device.ts";
import { deviceSizeBytes } from "../filesystem/devices-and-mounts.ts";
import type { MountReader } from "../filesystem/mount-reader.ts";
import type { FreeSpace, LvmMember, LvmVolume, Mounted, RawVolume, UnmountedShrinks } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { createTools } from "../tools.ts";
import { createVolumeQueue, type VolumeQueue } from "../volume-queue.ts";
import { finishRecordedShrink, finishUnmountedShrink, forgetUnmountedShrink } from "./finish-unmounted-shrink.ts";
import {
  COPY_TAG,
  createVolumeDevices,
  FORMATTED_TAG,
  findVolume,
  type LocatedVolume,
  RAW_BLOCK_TAG,
  taggedVolumeUID,
  type VolumeDevices,
} from "./logical-volume.ts";
import { askLvmd, type LvmHost, nameOf, requireClass } from "./lvm-host.ts";
import { roomOfPool } from "./pool-room.ts";
import { createRawStorage, type RawStorage } from "./raw-storage.ts";
import { endReduction, reduce, reductionBesideLvmdPath, reductionRecordPath } from "./reduce.ts";
import { shrinkUnmounted } from "./shrink-unmounted.ts";

export interface LvmStorageParts {
  readonly lvmd: LvmdCalls;
  readonly classes: DeviceClasses;
  /** Of lvmd's socket. */
  readonly socketDirectory: string;
  /** Where the records of formattings and reductions are stored. */
  readonly recordDirectory: string;
  readonly mounts: MountReader;
  readonly commands: CommandPort;
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface LvmFilesystems extends BlockStorage<LvmVolume>, UnmountedShrinks<LvmVolume> {}

export interface LvmStorage extends FreeSpace {
  readonly filesystems: LvmFilesystems;
  readonly raw: RawStorage;
}

function unmountedShrinksOf(host: LvmHost, queue: VolumeQueue): UnmountedShrinks<LvmVolume> {
  const { classes } = host;
  return {
    shrinksUnmounted: ({ fsType, deviceClass }) => {
      if (fsType !== "ext4") return false;
      return classes.list() === undefined ? undefined : classes.get(deviceClass)?.thinPool !== undefined;
    },
    shrinkUnmounted: (volume, sizeBytes, control) =>
      queue.run(volume.handle, () => shrinkUnmounted(host, volume, sizeBytes, control)),
    finishUnmounted: (volume) => queue.run(volume.handle, () => finishRecordedShrink(host, volume)),
  };
}

export function createLvmStorage(parts: LvmStorageParts): LvmStorage {
  const { lvmd, classes, socketDirectory, recordDirectory, mounts, commands, files, clock, log } = parts;
  const tools = createTools(commands);
  const host: LvmHost = { lvmd, classes, socketDirectory, recordDirectory, tools, files, clock, guards: new Set() };
  const members = createLvmMembers(host);
  const queue = createVolumeQueue();
  const mounted = createBlockStorage<LvmVolume>(
    { members, recordDirectory, mounts, tools, files, clock, log, moving: createMovingRoom() },
    queue,
    (volume) => finishUnmountedShrink(host, volume),
  );
  return {
    filesystems: { ...mounted, ...unmountedShrinksOf(host, queue) },
    raw: createRawStorage({ members, recordDirectory, tools, files }),
    // While lvmd is away, its last report counts. A class that has lost its group was reported with nothing free.
    freeBytes: async (deviceClass = "") => classes.get(deviceClass)?.freeBytes,
  };
}

function createLvmMembers(host: LvmHost): BlockMembers<LvmVolume | RawVolume> {
  const { lvmd } = host;
  const devices = createVolumeDevices(host);
  return {
    nameOf,
    recordName,
    remedy: "Remove the logical volume by hand if its data is not needed",
    grainBytes: (volume) => grainOf(host, volume),
    sizeBytes: async (volume) => {
      const device = devices.inUse(volume);
      return device === undefined ? (await devices.locate(volume))?.sizeBytes : deviceSizeBytes(device);
    },
    mountedBytes: ({ device }) => (existsSync(device) ? deviceSizeBytes(device) : undefined),
    devices: async (volume) => {
      const device = devices.inUse(volume) ?? (await devices.now(volume));
      return device === undefined ? [] : [device];
    },
    make: async (volume) => {
      recordName(volume);
      const found = await foundWhole(devices, volume);
      assertMode(host, volume, found.tags);
      if (volume.volumeMode === "Block") assertMadeFor(volume, found.tags);
      if (volume.volumeMode === "Block" && !found.tags.includes(RAW_BLOCK_TAG))
        await askLvmd(volume, lvmd.addTag(volume.deviceClass, volume.volumeID, RAW_BLOCK_TAG));
      await host.files.makeDirectory("stage/make-record-directory", host.recordDirectory);
    },
    attach: async (volume) => {
      const found = await foundWhole(devices, volume);
      return found.device ?? (await devices.activated(volume));
    },
    // LVM asks before it cuts what is in use, and reading a device may hang with its disk.
    assertWhole: () => undefined,
    unknownData: async (volume) => whyNotNew((await devices.locate(volume))?.tags ?? []),
    noteFormatting: (volume) => askLvmd(volume, lvmd.addTag(volume.deviceClass, volume.volumeID, FORMATTED_TAG)),
    isCopy: async (volume) => (await findVolume(host, volume))?.tags.includes(COPY_TAG) === true,
    noteRenamed: (volume) => askLvmd(volume, lvmd.removeTag(volume.deviceClass, volume.volumeID, COPY_TAG)),
    endEarlierCut: (volume) => endReduction(host, volume),
    grow: (volume, presentBytes, toBytes) => grow(host, volume, presentBytes, toBytes),
    room: (volume) => roomOfPool(host, volume, deviceSizeBytes(volume.device)),
    superblockPath: ({ device }) => device,
    cut: (volume, fromBytes, toBytes, signal) => reduce(host, volume, fromBytes, toBytes, signal),
    detach: async ({ handle }) => {
      devices.forget(handle); // it stays active: LVM has it, mounted or not
    },
    looksOwn: (volume) => looksOwn(host, devices, volume),
    remove: async (volume) => {
      await forgetUnmountedShrink(host, volume);
      await askLvmd(volume, lvmd.wipeAndRemove(volume.deviceClass, volume.volumeID));
      devices.forget(volume.handle);
      await host.files.remove("remove/reduction-record", reductionRecordPath(host, volume));
      await host.files.remove("remove/reduction-beside-lvmd", reductionBesideLvmdPath(host, volume));
    },
  };
}

async function foundWhole(devices: VolumeDevices, volume: LvmMember): Promise<LocatedVolume> {
  const found = await devices.locate(volume);
  if (found === undefined) throw gone(volume);
  assertWhole(volume, found.tags);
  return found;
}

/** Its tag names the volume, or else all that is on it is the volume's filesystem. */
async function looksOwn(host: LvmHost, devices: VolumeDevices, volume: LvmVolume | RawVolume): Promise<boolean> {
  const found = await devices.locate(volume);
  if (found === undefined || taggedVolumeUID(found.tags) === volume.volumeUID) return true;
  // It was judged when its removal began, by what is wiped since.
  if (found.tags.includes(WIPE_BEGUN_TAG)) return true;
  const device = found.device ?? (await devices.activated(volume));
  const signatures = await probe(host.tools, volume, device);
  return signatures.length > 0 && signatures.every(({ uuid }) => uuid === volume.fsid);
}

/** Throws once the removal of the volume has started: no pod is shown the volume again, whatever is asked of it since. */
function assertWhole(volume: LvmMember, tags: readonly string[]): void {
  if (!tags.includes(WIPE_BEGUN_TAG)) return;
  throw new StorageError(
    "AlreadyFormatted",
    `delete the claim: the removal of logical volume ${nameOf(volume)} has begun, and its data is wiped in part`,
  );
}

/** What the volume itself, and this node's record of its formatting, say outlives a layout that was edited or rebuilt. */
function assertMode({ recordDirectory }: LvmHost, volume: LvmVolume | RawVolume, tags: readonly string[]): void {
  const isFormatted =
    tags.includes(FORMATTED_TAG) || readMemberRecord(recordDirectory, recordName(volume)) !== undefined;
  const made = tags.includes(RAW_BLOCK_TAG) ? "Block" : isFormatted ? "Filesystem" : undefined;
  const { volumeMode = "Filesystem" } = volume;
  if (made === undefined || made === volumeMode) return;
  throw new StorageError(
    "WrongFilesystem",
    `correct the layout's spec.volumeMode: member ${nameOf(volume)} was made with ${made}, not ${volumeMode}, and is not changed`,
  );
}

/** A raw device that was not made for this volume is never shown to its pod: no filesystem's UUID would reveal that it is another's. */
function assertMadeFor(volume: RawVolume, tags: readonly string[]): void {
  if (taggedVolumeUID(tags) === volume.volumeUID) return;
  throw new StorageError(
    "WrongFilesystem",
    `correct the layout's source.logicalVolume: ${nameOf(volume)} has no tag of ${volume.handle}; it is not changed`,
  );
}

/** Throws on a name that would lead out of the record directory. */
function recordName({ handle, volumeID }: LvmMember): string {
  if (volumeID === basename(volumeID) && !volumeID.startsWith(".")) return volumeID;
  throw new StorageError("CommandFailed", `"${volumeID}" of ${handle} is not a plain file name, as volumes have`);
}

/** What the agent made for a volume was wiped by LVM, and is tagged with it. What another program made may hold data. */
function whyNotNew(tags: readonly string[]): string | undefined {
  if (tags.includes(FORMATTED_TAG)) return `is tagged ${FORMATTED_TAG}`;
  return taggedVolumeUID(tags) === undefined ? "was not made for this volume" : undefined;
}

/** As lvmd reported last: a class' grain does not change while it has volumes. */
function grainOf(host: LvmHost, volume: LvmMember): number {
  return host.classes.get(volume.deviceClass)?.sizeGrainBytes ?? requireClass(host, volume).sizeGrainBytes;
}

async function grow(
  { lvmd }: LvmHost,
  volume: Mounted<LvmMember>,
  presentBytes: number,
  toBytes: number,
): Promise<void> {
  if (toBytes === presentBytes) return;
  await askLvmd(volume, lvmd.resize(volume.deviceClass, volume.volumeID, toBytes));
  const shownBytes = deviceSizeBytes(volume.device);
  if (shownBytes >= toBytes) return;
  throw new StorageError(
    "CommandFailed",
    `run lvchange --refresh, see dmesg: ${nameOf(volume)} was grown to ${formatBytes(toBytes)}, but ${volume.device} has ${shownBytes} bytes`,
  );
}

function gone(volume: LvmMember): StorageError {
  return new StorageError(
    "AlreadyFormatted",
    `bring back logical volume ${nameOf(volume)}, or delete the claim if its data is not needed: lvmd does not have it`,
  );
}
