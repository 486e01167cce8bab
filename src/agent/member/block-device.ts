// A block device of this node, found by what a driver has put at a path. Reading only; nothing here waits for the device.
import { readFileSync, statSync } from "node:fs";
import { basename } from "node:path";

export interface BlockDevice {
  /** The node's own name of it, e.g. /dev/loop3: what btrfs is told. */
  readonly path: string;
  /** As sysfs calls it. */
  readonly name: string;
}

const SECTOR_BYTES = 512;
const DEVICE_NAME = /^DEVNAME=(.+)$/m;

/** Undefined when nothing is at the path, or what is there is no block device. */
export function blockDeviceAt(path: string): BlockDevice | undefined {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined || !stat.isBlockDevice()) return undefined;
  const { major, minor } = numbersOf(stat.rdev);
  const text = readFileSync(`/sys/dev/block/${major}:${minor}/uevent`, "utf8");
  const name = DEVICE_NAME.exec(text)?.[1];
  if (name === undefined) throw new Error(`the kernel has no name for block device ${major}:${minor} at ${path}`);
  return { path: `/dev/${name}`, name: basename(name.replaceAll("/", "!")) };
}

export function blockSizeBytes({ name }: BlockDevice): number {
  return Number(readFileSync(`/sys/class/block/${name}/size`, "utf8")) * SECTOR_BYTES;
}

/** gnu_dev_major(3): twelve bits of the major number lie in between those of the minor. */
function numbersOf(rdev: number): { readonly major: number; readonly minor: number } {
  const number = BigInt(rdev);
  return {
    major: Number(((number >> 8n) & 0xfffn) | ((number >> 32n) & 0xfffff000n)),
    minor: Number((number & 0xffn) | ((number >> 12n) & 0xffffff00n)),
  };
}
