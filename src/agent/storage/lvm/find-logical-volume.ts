// A volume's own logical volume, as lvmd has it: never another one's, whatever a layout says, and never "none" where nobody can tell.
import { readFileSync } from "node:fs";
import { RECORDS } from "../../../api/names.ts";
import type { Volume } from "../../../gen/tidemark/lvmd/v1/lvmd.ts";
import { type LvmMember, StorageError } from "../storage.ts";
import { isNumberOf } from "./device-of-volume.ts";
import { askLvmd, type LvmHost, nameOf, requireClass } from "./lvm-host.ts";

/** Undefined where there is none. Throws WrongFilesystem where its tags name another volume, WaitingForMember where lvmd cannot tell. */
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
    `logical volume ${nameOf(volume)} is tagged as volume ${owner}'s, not as ${volume.handle}'s; it is left as it is. Correct ` +
      "source.logicalVolume in the FilesystemLayout",
  );
}

const OWNER_TAG = `${RECORDS.volumeUID}=`;

/** Undefined: no tag tells. */
export function taggedVolumeUID(tags: readonly string[]): string | undefined {
  return tags.find((tag) => tag.startsWith(OWNER_TAG))?.slice(OWNER_TAG.length);
}

const DEVICE_NAME = /^DEVNAME=(.+)$/m;

/**
 * By the kernel's name, e.g. /dev/dm-3, which stays one name whatever udev links to it. Undefined while it is not active, and where the
 * number that lvmd was told is another volume's by now.
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
