// Members of the backend lvm: logical volumes of this node, made, grown, cut and removed by lvmd. The volume itself is made before the
// layout that names it; what is here only finds it.
import { existsSync } from "node:fs";
import { basename } from "node:path";
import { WIPE_BEGUN_TAG } from "../../../api/names.ts";
import { formatBytes } from "../../../units/quantity.ts";
import type { BlockMembers } from "../block/block-member.ts";
import { readMemberRecord } from "../block/member-record.ts";
import { probe } from "../block/probe-device.ts";
import { bindsOfDevice } from "../block/raw-device.ts";
import { deviceSizeBytes, mountedAnywhere } from "../loop/loop-device.ts";
import { type LvmMember, type LvmVolume, type Mounted, type RawVolume, StorageError } from "../storage.ts";
import { COPY_TAG, FORMATTED_TAG, RAW_BLOCK_TAG } from "./content-tags.ts";
import { isDeviceOf } from "./device-of-volume.ts";
import { deviceOf, findVolume, taggedVolumeUID } from "./find-logical-volume.ts";
import { askLvmd, type LvmHost, nameOf, requireClass } from "./lvm-host.ts";
import { roomOfPool } from "./pool-room.ts";
import { reduce, settleReduction } from "./reduce.ts";
import { reductionBesideLvmdPath, reductionRecordPath } from "./reduction-record.ts";
import { forgetUnmountedShrink } from "./unmounted-shrink/finish-unmounted-shrink.ts";

export function createLvmMembers(host: LvmHost): BlockMembers<LvmVolume | RawVolume> {
  const { lvmd } = host;
  /** What volumes were last seen as. */
  const seen = new Map<string, { readonly device: string; readonly uuid: string }>();
  const locate = async (volume: LvmMember) => {
    const found = await findVolume(host, volume);
    const device = found && deviceOf(found);
    if (found === undefined || device === undefined) seen.delete(volume.handle);
    else seen.set(volume.handle, { device, uuid: found.uuid });
    return found && { ...found, device };
  };
  /** What is in use stays what it is: it needs no lvmd to tell. */
  const deviceInUse = (volume: LvmVolume | RawVolume): string | undefined => {
    const last = seen.get(volume.handle);
    if (last === undefined || !isInUse(volume, last.device)) return undefined;
    return isDeviceOf(last.device, last.uuid) ? last.device : undefined;
  };
  /** While nobody can tell it is the last one: what is let go of right now is still that. */
  const deviceNow = async (volume: LvmMember): Promise<string | undefined> => {
    try {
      return (await locate(volume))?.device;
    } catch (error) {
      const last = seen.get(volume.handle);
      if (last === undefined || !(error instanceof StorageError) || error.code !== "WaitingForMember") throw error;
      return isDeviceOf(last.device, last.uuid) ? last.device : undefined;
    }
  };
  const activated = async (volume: LvmMember): Promise<string> => {
    await askLvmd(volume, lvmd.activate(volume.deviceClass, volume.volumeID));
    const device = (await locate(volume))?.device;
    if (device === undefined) throw inactive(volume);
    return device;
  };
  return {
    nameOf,
    recordName,
    remedy: "Remove the logical volume by hand if its data is not needed",
    grainBytes: (volume) => grainOf(host, volume),
    sizeBytes: async (volume) => {
      const device = deviceInUse(volume);
      return device === undefined ? (await locate(volume))?.sizeBytes : deviceSizeBytes(device);
    },
    mountedBytes: ({ device }) => (existsSync(device) ? deviceSizeBytes(device) : undefined),
    devices: async (volume) => {
      const device = deviceInUse(volume) ?? (await deviceNow(volume));
      return device === undefined ? [] : [device];
    },
    make: async (volume) => {
      recordName(volume);
      const found = await locate(volume);
      if (found === undefined) throw gone(volume);
      assertWhole(volume, found.tags);
      assertMode(host, volume, found.tags);
      if (volume.volumeMode === "Block") assertMadeFor(volume, found.tags);
      if (volume.volumeMode === "Block" && !found.tags.includes(RAW_BLOCK_TAG))
        await askLvmd(volume, lvmd.addTag(volume.deviceClass, volume.volumeID, RAW_BLOCK_TAG));
      await host.files.makeDirectory("stage/make-record-directory", host.recordDirectory);
    },
    attach: async (volume) => {
      const found = await locate(volume);
      if (found === undefined) throw gone(volume);
      assertWhole(volume, found.tags);
      return found.device ?? (await activated(volume));
    },
    // LVM asks before it cuts what is in use, and reading a device may hang with its disk.
    assertWhole: () => undefined,
    unknownData: async (volume) => whyNotNew((await locate(volume))?.tags ?? []),
    noteFormatting: (volume) => askLvmd(volume, lvmd.addTag(volume.deviceClass, volume.volumeID, FORMATTED_TAG)),
    isCopy: async (volume) => (await findVolume(host, volume))?.tags.includes(COPY_TAG) === true,
    noteRenamed: (volume) => askLvmd(volume, lvmd.removeTag(volume.deviceClass, volume.volumeID, COPY_TAG)),
    settle: (volume) => settleReduction(host, volume),
    grow: (volume, presentBytes, toBytes) => grow(host, volume, presentBytes, toBytes),
    room: (volume) => roomOfPool(host, volume, deviceSizeBytes(volume.device)),
    superblockPath: ({ device }) => device,
    cut: (volume, fromBytes, toBytes, signal) => reduce(host, volume, fromBytes, toBytes, signal),
    detach: async ({ handle }) => {
      seen.delete(handle); // it stays active: LVM has it, mounted or not
    },
    looksOwn: async (volume) => {
      const found = await locate(volume);
      if (found === undefined || taggedVolumeUID(found.tags) === volume.volumeUID) return true;
      // It was judged when its removal began, by what is wiped since.
      if (found.tags.includes(WIPE_BEGUN_TAG)) return true;
      const device = found.device ?? (await activated(volume));
      const signatures = await probe(host.tools, volume, device);
      return signatures.length > 0 && signatures.every(({ uuid }) => uuid === volume.fsid);
    },
    remove: async (volume) => {
      await forgetUnmountedShrink(host, volume);
      await askLvmd(volume, lvmd.wipeAndRemove(volume.deviceClass, volume.volumeID));
      seen.delete(volume.handle);
      await host.files.remove("remove/reduction-record", reductionRecordPath(host, volume));
      await host.files.remove("remove/reduction-beside-lvmd", reductionBesideLvmdPath(host, volume));
    },
  };
}

function isInUse(volume: LvmVolume | RawVolume, device: string): boolean {
  const likely = "fsid" in volume ? volume.fsid : undefined;
  return mountedAnywhere(device, likely) !== undefined || bindsOfDevice(device).length > 0;
}

/** One whose removal has begun is not shown to anybody again, whatever is asked of it since. */
function assertWhole(volume: LvmMember, tags: readonly string[]): void {
  if (!tags.includes(WIPE_BEGUN_TAG)) return;
  throw new StorageError(
    "AlreadyFormatted",
    `the removal of logical volume ${nameOf(volume)} of ${volume.handle} has begun: its data is wiped in part, and it is not used any ` +
      "more. Delete the claim",
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
    `member ${nameOf(volume)} of ${volume.handle} was made as a volume of volumeMode ${made}, and is wanted with ${volumeMode}; it is ` +
      "left as it is. Correct spec.volumeMode of the FilesystemLayout",
  );
}

/** What nobody has made for this volume is never shown to its pod: no filesystem's UUID would tell that it is another's. */
function assertMadeFor(volume: RawVolume, tags: readonly string[]): void {
  if (taggedVolumeUID(tags) === volume.volumeUID) return;
  throw new StorageError(
    "WrongFilesystem",
    `logical volume ${nameOf(volume)} carries no tag that names ${volume.handle}: it was not made for it, and is left as it is. ` +
      "Correct source.logicalVolume in the FilesystemLayout",
  );
}

/** Throws on a name that would lead out of the record directory. */
function recordName({ handle, volumeID }: LvmMember): string {
  if (volumeID === basename(volumeID) && !volumeID.startsWith(".")) return volumeID;
  throw new StorageError("CommandFailed", `"${volumeID}" of ${handle} is no plain file name, as those of volumes are`);
}

/** What the agent made for a volume was wiped by LVM, and is tagged with it. Of what others made nobody can tell. */
function whyNotNew(tags: readonly string[]): string | undefined {
  if (tags.includes(FORMATTED_TAG)) return `is tagged ${FORMATTED_TAG}`;
  return taggedVolumeUID(tags) === undefined ? "was not made for this volume" : undefined;
}

/** As last told: a class' grain does not change while it has volumes. */
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
    `member ${nameOf(volume)} of ${volume.handle} was grown to ${formatBytes(toBytes)}, but ${volume.device} has ${shownBytes} bytes; ` +
      `see dmesg on the node, and run lvchange --refresh on it`,
  );
}

function gone(volume: LvmMember): StorageError {
  return new StorageError(
    "AlreadyFormatted",
    `lvmd of this node has no logical volume ${nameOf(volume)} of ${volume.handle}; it was made, and no empty one takes its place. ` +
      "Bring it back, or delete the claim if its data is not needed",
  );
}

function inactive(volume: LvmMember): StorageError {
  return new StorageError(
    "WaitingForMember",
    `logical volume ${nameOf(volume)} of ${volume.handle} is not active on this node, although lvmd has activated it; see lvs on the node`,
  );
}
