// This node's block devices and this process' mounts, as the kernel shows them, and whether a path can become a mount. Reading only;
// nothing here waits for a device or a filesystem.

import { existsSync, lstatSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { StorageError } from "../storage-error.ts";

export interface BlockDevice {
  /** The node's own name of it, e.g. /dev/loop3: the path that btrfs gets. */
  readonly path: string;
  /** As sysfs calls it. */
  readonly name: string;
  /** Of its disk, which the kernel gives once in a boot, as it does no name; undefined where it gives none (before 5.15). */
  readonly diskSequence: number | undefined;
}

const SECTOR_BYTES = 512;
const DEVICE_NAME = /^DEVNAME=(.+)$/m;

/**
 * Undefined when nothing is at the path, or what is there is not a block device. Throws MembersMissing when the path leads to a disk that
 * the kernel no longer has: it was taken away while in use.
 */
export function blockDeviceAt(path: string): BlockDevice | undefined {
  const numbers = blockNumbersAt(path);
  if (numbers === undefined) return undefined;
  const name = kernelNameOf(numbers);
  if (name !== undefined) return blockDevice(name);
  throw new StorageError(
    "MembersMissing",
    `${path} leads to block device ${numbers}, which has vanished from this node; see dmesg, and bring the disk back`,
  );
}

/** Whether both are on one disk: the kernel gives the name of one that has gone to the next. */
export function isSameDevice(one: BlockDevice, other: BlockDevice): boolean {
  return one.name === other.name && one.diskSequence === other.diskSequence;
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

function blockDevice(devName: string): BlockDevice {
  const name = basename(devName.replaceAll("/", "!"));
  return { path: `/dev/${devName}`, name, diskSequence: diskSequenceOf(name) };
}

/** A partition's directory is in that of its disk, which has the number. */
function diskSequenceOf(name: string): number | undefined {
  for (const directory of [name, `${name}/..`])
    try {
      return Number(readFileSync(`/sys/class/block/${directory}/diskseq`, "utf8"));
    } catch (error) {
      if (!["ENOENT", "ENODEV"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
    }
  return undefined;
}

/** "major:minor"; undefined when no block device is at the path. */
function blockNumbersAt(path: string): string | undefined {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined || !stat.isBlockDevice()) return undefined;
  const { major, minor } = numbersOf(stat.rdev);
  return `${major}:${minor}`;
}

/** Below /dev; undefined when the kernel no longer has such a device. */
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

/** A directory for each that is mounted, by its UUID. */
const BTRFS_DIRECTORY = "/sys/fs/btrfs";

export function deviceSizeBytes(device: string): number {
  return Number(readFileSync(`/sys/block/${basename(device)}/size`, "utf8")) * SECTOR_BYTES;
}

/**
 * The device's mounted filesystem in sysfs, in any mount namespace; undefined when it is mounted nowhere. `likely`: the UUID of a btrfs
 * that is checked first, since a node may have hundreds.
 */
export function mountedAnywhere(device: string, likely?: string): string | undefined {
  const name = basename(device);
  if (likely !== undefined && isOfBtrfs(likely, name)) return pathOfBtrfs(likely);
  const plain = [`/sys/fs/ext4/${name}`, `/sys/fs/xfs/${name}`].find((path) => existsSync(path));
  return plain ?? btrfsOn(name);
}

function btrfsOn(name: string): string | undefined {
  if (!existsSync(BTRFS_DIRECTORY)) return undefined;
  const fsid = readdirSync(BTRFS_DIRECTORY).find((one) => isOfBtrfs(one, name));
  return fsid === undefined ? undefined : pathOfBtrfs(fsid);
}

function isOfBtrfs(fsid: string, name: string): boolean {
  return existsSync(`${pathOfBtrfs(fsid)}/devices/${name}`);
}

function pathOfBtrfs(fsid: string): string {
  return `${BTRFS_DIRECTORY}/${fsid}`;
}

/** Names of the devices that the kernel has in the mounted filesystem; empty when it is mounted nowhere. */
export function mountedDeviceNames(fsid: string): string[] {
  try {
    return readdirSync(`/sys/fs/btrfs/${fsid}/devices`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

export interface Mount {
  readonly mountPath: string;
  /** The directory within the filesystem that is shown there: "/" for all of it. */
  readonly root: string;
  readonly fsType: string;
  /** What was named at the mount, e.g. /dev/loop3. */
  readonly source: string;
  /** Of the filesystem itself: btrfs, ext4 and xfs stop all writes by themselves after an error, and a user may remount it so. */
  readonly readOnly: boolean;
}

/** Kernels from 6.15 on leave an ext4 that has met an error "rw,emergency_ro", and show one that was shut down as "rw,shutdown". */
const WRITES_STOPPED: readonly string[] = ["ro", "emergency_ro", "shutdown"];

/** Its lines, as they were at one moment. */
export type MountTable = readonly string[];

export function readMountTable(): MountTable {
  return readMountInfo().split("\n");
}

function readMountInfo(): string {
  return readFileSync("/proc/self/mountinfo", "utf8");
}

/** Line format: proc_pid_mountinfo(5). */
export function parseMounts(mountinfo: string): Mount[] {
  return mountsIn(mountinfo.split("\n"));
}

function mountsIn(table: MountTable): Mount[] {
  return table.flatMap((line) => {
    const [head, tail] = line.split(" - ");
    const [root, mountPath] = head?.split(" ").slice(3) ?? [];
    const [fsType, source, options] = tail?.split(" ") ?? [];
    if (root === undefined || mountPath === undefined) return [];
    if (fsType === undefined || source === undefined || options === undefined) return [];
    return [
      {
        mountPath: unescapeOctal(mountPath),
        root: unescapeOctal(root),
        fsType,
        source: unescapeOctal(source),
        readOnly: options.split(",").some((option) => WRITES_STOPPED.includes(option)),
      },
    ];
  });
}

/** The topmost mount at this path; links above it are followed, as the kernel has when it was mounted. */
export function mountAt(mountPath: string, table: MountTable = readMountTable()): Mount | undefined {
  const path = kernelPathOf(mountPath);
  if (path === undefined) return undefined;
  return mountsIn(linesOf(path, table)).findLast((mount) => mount.mountPath === path);
}

/** As the kernel's table names what is mounted there; undefined where its directory does not exist. */
export function kernelPathOf(mountPath: string): string | undefined {
  const parent = dirname(mountPath);
  return existsSync(parent) ? join(realpathSync.native(parent), basename(mountPath)) : undefined;
}

/** Reads the topmost mount at each path, by the kernel's name of it; for those who ask often, since it seldom changes. */
export function createTopmostMounts(): () => ReadonlyMap<string, Mount> {
  let text = "";
  let mounts: ReadonlyMap<string, Mount> = new Map();
  return () => {
    const now = readMountInfo();
    if (now !== text) mounts = new Map(parseMounts(now).map((mount) => [mount.mountPath, mount]));
    text = now;
    return mounts;
  };
}

export function mountsOf(source: string, table: MountTable = readMountTable()): Mount[] {
  return mountsIn(linesOf(source, table)).filter((mount) => mount.source === source);
}

/** Mounts of a block device by the kernel's name of it (/dev/dm-3), by whichever of its paths it was mounted. */
export function mountsOfDevice(device: string): Mount[] {
  return readMounts().filter((mount) => isMountOf(mount, device));
}

export function isMountOf({ source }: Mount, device: string): boolean {
  return source === device || (source.startsWith("/dev/") && deviceNameOf(source) === basename(device));
}

/** Mounts of a btrfs by its devices' names in sysfs: the kernel calls it by any one of them, and that by any of its paths. */
export function mountsOfBtrfs(deviceNames: readonly string[]): Mount[] {
  return readMounts().filter(({ fsType, source }) => fsType === "btrfs" && deviceNames.includes(deviceNameOf(source)));
}

/** Bind mounts of anything of this name, such as a device's node: what they show is for the caller to look at. */
export function mountsOfNode(name: string): Mount[] {
  return mountsIn(linesOf(name, readMountTable())).filter(({ root }) => root !== "/" && basename(root) === name);
}

/** Mounts at or below this path. */
export function mountsUnder(path: string): Mount[] {
  const real = existsSync(path) ? realpathSync(path) : path;
  return readMounts().filter(({ mountPath }) => mountPath === real || mountPath.startsWith(`${real}/`));
}

function readMounts(): Mount[] {
  return mountsIn(readMountTable());
}

/** What the kernel writes as it is. */
const PLAIN = /^[\w./:@+~-]+$/;

/** Those that may name it: a node has hundreds, and each volume looks for its own a dozen times. */
function linesOf(name: string, table: MountTable): MountTable {
  return PLAIN.test(name) ? table.filter((line) => line.includes(name)) : table;
}

/** As the kernel escapes blanks in paths: each is one byte. */
export function unescapeOctal(text: string): string {
  return text.replaceAll(/\\([0-3][0-7]{2})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}

/**
 * mount follows a symbolic link to wherever it leads, /etc included. Throws where the path is a symbolic link; it need not exist. Not for a
 * path that is mounted already.
 */
export function assertNoLink(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return;
  throw new StorageError("CommandFailed", `${path} is a symbolic link; nothing is mounted through it. Remove the link`);
}
