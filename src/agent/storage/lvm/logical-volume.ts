// A volume's own logical volume, as lvmd has it and the kernel shows it: never another one's, whatever a layout says, and never "none"
// where it is unknown. What it says of its own content stands in its tags, which outlive every record of a node. Which device it was seen
// as last is remembered: that goes on while lvmd cannot be asked.

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import type { Volume } from "../../../contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import { RECORDS } from "../../../contracts/names.ts";
import { bindsOfDevice } from "../block/raw-device.ts";
import { mountedAnywhere } from "../filesystem/devices-and-mounts.ts";
import type { LvmMember, LvmVolume, RawVolume } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { askLvmd, type LvmHost, nameOf, requireClass } from "./lvm-host.ts";

/** Undefined where there is none. Throws WrongFilesystem where its tags name another volume, WaitingForMember where lvmd does not know. */
export async function findVolume(host: LvmHost, volume: LvmMember): Promise<Volume | undefined> {
  const found = await askLvmd(volume, host.lvmd.volume(volume.deviceClass, volume.volumeID));
  if (found === undefined) {
    requireClass(host, volume);
    return undefined;
  }
  const owner = taggedVolumeUID(found.tags);
  if (owner === undefined || owner === volume.volumeUID) return found;
  throw new StorageError(
    "WrongFilesystem",
    `correct the layout's source.logicalVolume: ${nameOf(volume)} has the tag of volume ${owner}, and is not changed`,
  );
}

const OWNER_TAG = `${RECORDS.volumeUID}=`;

/** Undefined: no tag names a volume. */
export function taggedVolumeUID(tags: readonly string[]): string | undefined {
  return tags.find((tag) => tag.startsWith(OWNER_TAG))?.slice(OWNER_TAG.length);
}

const DEVICE_NAME = /^DEVNAME=(.+)$/m;

/**
 * By the kernel's name, e.g. /dev/dm-3, which stays one name whatever udev links to it. Undefined while the volume is not active, and where
 * the number in lvmd's answer is another volume's by now.
 */
export function deviceOf({ devMajor, devMinor, uuid }: Volume): string | undefined {
  if (!isNumberOf(devMajor, devMinor, uuid)) return undefined;
  try {
    const name = DEVICE_NAME.exec(readFileSync(`/sys/dev/block/${devMajor}:${devMinor}/uevent`, "utf8"))?.[1];
    return name === undefined ? undefined : `/dev/${name}`;
  } catch (error) {
    if (["ENOENT", "ENODEV"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}

/** LVM's: this, the group's UUID and the volume's, both without dashes (lvm2, libdm/libdm-string.c, dm_build_dm_uuid). */
const LVM_PREFIX = "LVM-";

/**
 * Whether a block device is the volume's, by what the kernel says. The kernel gives numbers away again when volumes are deactivated, so an
 * earlier number may now be another volume's. `sysPath`: its directory in /sys. A device that is not device-mapper's says nothing of its
 * volume, and counts as the volume's.
 */
function isVolumeAt(sysPath: string, volumeUUID: string): boolean {
  let said: string;
  try {
    said = readFileSync(`${sysPath}/dm/uuid`, "utf8").trim();
  } catch (error) {
    if (["ENOENT", "ENODEV"].includes((error as NodeJS.ErrnoException).code ?? "")) return true;
    throw error;
  }
  return said.startsWith(LVM_PREFIX) && said.endsWith(volumeUUID.replaceAll("-", ""));
}

function isNumberOf(major: number, minor: number, volumeUUID: string): boolean {
  return isVolumeAt(`/sys/dev/block/${major}:${minor}`, volumeUUID);
}

function isDeviceOf(device: string, volumeUUID: string): boolean {
  return isVolumeAt(`/sys/class/block/${basename(device)}`, volumeUUID);
}

/**
 * On the volume itself, from before its only mkfs: no node's record survives the loss of that node's disk. A thick volume may show old
 * bytes that do not form a signature. Only this tag distinguishes one that has lost its superblock from a new one.
 */
export const FORMATTED_TAG = "tidemark.dev/formatted";

/** From the moment in which it is made as a snapshot of another until its filesystem has this volume's own UUID. */
export const COPY_TAG = "tidemark.dev/copy";

/** Pods have the device itself: whatever it carries, or does not, it is never formatted. */
export const RAW_BLOCK_TAG = `${RECORDS.volumeMode}=Block`;

/**
 * From before a shrink of an unmounted filesystem touches anything until the shrink has ended: a node without a record of it does not
 * mount.
 */
export const UNMOUNTED_SHRINK_TAG = "tidemark.dev/unmounted-shrink";

/** `device`: undefined while it is not active. */
export type LocatedVolume = Volume & { readonly device: string | undefined };

/** All throw StorageError. */
export interface VolumeDevices {
  /** As lvmd has it; undefined where there is none. */
  locate(volume: LvmMember): Promise<LocatedVolume | undefined>;
  /** What is in use stays what it is: it needs no lvmd to say so. Undefined: it is not in use, or was not seen yet. */
  inUse(volume: LvmVolume | RawVolume): string | undefined;
  /** While lvmd cannot say, the last known device: a volume that is being released still has that one. */
  now(volume: LvmMember): Promise<string | undefined>;
  /** Has lvmd activate the volume. */
  activated(volume: LvmMember): Promise<string>;
  forget(handle: string): void;
}

interface SeenDevice {
  readonly device: string;
  readonly uuid: string;
}

export function createVolumeDevices(host: LvmHost): VolumeDevices {
  const seen = new Map<string, SeenDevice>();
  const locate = async (volume: LvmMember): Promise<LocatedVolume | undefined> => {
    const found = await findVolume(host, volume);
    const device = found && deviceOf(found);
    if (found === undefined || device === undefined) seen.delete(volume.handle);
    else seen.set(volume.handle, { device, uuid: found.uuid });
    return found && { ...found, device };
  };
  return {
    locate,
    inUse: (volume) => {
      const last = seen.get(volume.handle);
      return last === undefined || !isInUse(volume, last.device) ? undefined : stillOf(last);
    },
    now: async (volume) => {
      try {
        return (await locate(volume))?.device;
      } catch (error) {
        const last = seen.get(volume.handle);
        if (last === undefined || !(error instanceof StorageError) || error.code !== "WaitingForMember") throw error;
        return stillOf(last);
      }
    },
    activated: async (volume) => {
      await askLvmd(volume, host.lvmd.activate(volume.deviceClass, volume.volumeID));
      const device = (await locate(volume))?.device;
      if (device === undefined) throw inactive(volume);
      return device;
    },
    forget: (handle) => {
      seen.delete(handle);
    },
  };
}

function stillOf({ device, uuid }: SeenDevice): string | undefined {
  return isDeviceOf(device, uuid) ? device : undefined;
}

function isInUse(volume: LvmVolume | RawVolume, device: string): boolean {
  const likely = "fsid" in volume ? volume.fsid : undefined;
  return mountedAnywhere(device, likely) !== undefined || bindsOfDevice(device).length > 0;
}

function inactive(volume: LvmMember): StorageError {
  return new StorageError(
    "WaitingForMember",
    `see lvs on the node: logical volume ${nameOf(volume)} is not active there, although lvmd has activated it`,
  );
}
