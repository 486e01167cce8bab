// A volume's device as the kernel has it: its number and its true size, read without asking LVM.
import { existsSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import type { DeviceNumber } from "./lvm/report.ts";

export interface DeviceNode {
  readonly device: DeviceNumber;
  readonly sizeBytes: number;
}

const SECTOR_BYTES = 512;

/** Undefined: there is no block device at this path, or it is not to be read. */
export async function readDeviceNode(path: string): Promise<DeviceNode | undefined> {
  try {
    const found = await stat(path, { bigint: true });
    if (!found.isBlockDevice()) return undefined;
    const device = deviceNumber(found.rdev);
    const sectors = Number(await readFile(`/sys/dev/block/${device.major}:${device.minor}/size`, "utf8"));
    return { device, sizeBytes: sectors * SECTOR_BYTES };
  } catch {
    return undefined; // the caller asks LVM
  }
}

/**
 * Whether the number is still this volume's: one that is deactivated gives it back, and nothing tells of that. A device that is none of
 * device-mapper's is taken at its word.
 */
export async function isDeviceOf(device: DeviceNumber | undefined, volumeUUID: string): Promise<boolean> {
  if (device === undefined) return false;
  const path = `/sys/dev/block/${device.major}:${device.minor}`;
  try {
    // "LVM-", the group's UUID and the volume's, without dashes.
    return (await readFile(`${path}/dm/uuid`, "utf8")).trim().endsWith(volumeUUID.replaceAll("-", ""));
  } catch {
    return existsSync(path);
  }
}

/** The kernel's own name, which no renaming of a volume changes. Undefined: it is not active any more. */
export async function kernelPathOf({ major, minor }: DeviceNumber): Promise<string | undefined> {
  try {
    const name = /^DEVNAME=(.+)$/m.exec(await readFile(`/sys/dev/block/${major}:${minor}/uevent`, "utf8"))?.[1];
    return name === undefined ? undefined : `/dev/${name}`;
  } catch {
    return undefined;
  }
}

/** Whether a discard does anything on it: Linux' queue-sysfs. */
export async function discards(path: string): Promise<boolean> {
  const device = (await readDeviceNode(path))?.device;
  if (device === undefined) return false;
  const limit = `/sys/dev/block/${device.major}:${device.minor}/queue/discard_max_bytes`;
  return readFile(limit, "utf8").then(
    (text) => Number(text) > 0,
    () => false,
  );
}

/** glibc's gnu_dev_major and gnu_dev_minor. */
export function deviceNumber(rdev: bigint): DeviceNumber {
  return {
    major: Number(((rdev >> 8n) & 0xfffn) | ((rdev >> 32n) & 0xfffff000n)),
    minor: Number((rdev & 0xffn) | ((rdev >> 12n) & 0xffffff00n)),
  };
}
