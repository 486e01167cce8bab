// A block device of this node, found by what a driver has put at a path. Reading only; nothing here waits for the device.
import { readFileSync, statSync } from "node:fs";
import { basename } from "node:path";
import { StorageError } from "../storage/storage.ts";

export interface BlockDevice {
  /** The node's own name of it, e.g. /dev/loop3: what btrfs is told. */
  readonly path: string;
  /** As sysfs calls it. */
  readonly name: string;
}

const SECTOR_BYTES = 512;
const DEVICE_NAME = /^DEVNAME=(.+)$/m;

/**
 * Undefined when nothing is at the path, or what is there is no block device. Throws MembersMissing when it leads to a disk that the
 * kernel has no more: it was taken away under whoever uses it.
 */
export function blockDeviceAt(path: string): BlockDevice | undefined {
  const numbers = blockNumbersAt(path);
  if (numbers === undefined) return undefined;
  const name = kernelNameOf(numbers);
  if (name !== undefined) return { path: `/dev/${name}`, name: basename(name.replaceAll("/", "!")) };
  throw new StorageError(
    "MembersMissing",
    `${path} leads to block device ${numbers}, which has vanished from this node; see dmesg, and bring the disk back`,
  );
}

/** Whether what is at the path leads to a disk that the kernel has no more. */
export function hasVanished(path: string): boolean {
  const numbers = blockNumbersAt(path);
  return numbers !== undefined && kernelNameOf(numbers) === undefined;
}

/** Whether a device is published there, also one that has vanished. */
export function isBlockDevice(path: string): boolean {
  return blockNumbersAt(path) !== undefined;
}

/** As sysfs calls what the kernel or a program names by this path: /dev/mapper/pool-m1 is dm-3. The path's last part where nothing is there. */
export function deviceNameOf(path: string): string {
  const numbers = blockNumbersAt(path);
  const name = numbers === undefined ? undefined : kernelNameOf(numbers);
  return basename(name?.replaceAll("/", "!") ?? path);
}

export function blockSizeBytes({ name }: BlockDevice): number {
  return Number(readFileSync(`/sys/class/block/${name}/size`, "utf8")) * SECTOR_BYTES;
}

/** "major:minor"; undefined when no block device is at the path. */
function blockNumbersAt(path: string): string | undefined {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined || !stat.isBlockDevice()) return undefined;
  const { major, minor } = numbersOf(stat.rdev);
  return `${major}:${minor}`;
}

/** Below /dev; undefined when the kernel has no such device any more. */
function kernelNameOf(numbers: string): string | undefined {
  try {
    return DEVICE_NAME.exec(readFileSync(`/sys/dev/block/${numbers}/uevent`, "utf8"))?.[1];
  } catch (error) {
    if (["ENOENT", "ENODEV"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}

/** gnu_dev_major(3): twelve bits of the major number lie in between those of the minor. */
function numbersOf(rdev: number): { readonly major: number; readonly minor: number } {
  const number = BigInt(rdev);
  return {
    major: Number(((number >> 8n) & 0xfffn) | ((number >> 32n) & 0xfffff000n)),
    minor: Number((number & 0xffn) | ((number >> 12n) & 0xffffff00n)),
  };
}
