// Whether a block device is a volume's, by the kernel's own word: numbers are given away again when volumes are deactivated, and who was
// told one before may mean another volume by it.
import { readFileSync } from "node:fs";
import { basename } from "node:path";

/** LVM's: this, the group's UUID and the volume's, both without dashes (lvm2, libdm/libdm-string.c, dm_build_dm_uuid). */
const LVM_PREFIX = "LVM-";

/** `sysPath`: its directory in /sys. A device that is none of device-mapper's says nothing of its volume, and is taken at its word. */
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

export function isNumberOf(major: number, minor: number, volumeUUID: string): boolean {
  return isVolumeAt(`/sys/dev/block/${major}:${minor}`, volumeUUID);
}

export function isDeviceOf(device: string, volumeUUID: string): boolean {
  return isVolumeAt(`/sys/class/block/${basename(device)}`, volumeUUID);
}
