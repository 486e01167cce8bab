// A volume's device as the kernel has it: its number and its true size, read without asking LVM.
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

/** glibc's gnu_dev_major and gnu_dev_minor. */
function deviceNumber(rdev: bigint): DeviceNumber {
  return {
    major: Number(((rdev >> 8n) & 0xfffn) | ((rdev >> 32n) & 0xfffff000n)),
    minor: Number((rdev & 0xffn) | ((rdev >> 12n) & 0xffffff00n)),
  };
}
