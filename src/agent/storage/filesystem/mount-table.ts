// This process' mounts, as the kernel tells them. Reading only.
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { deviceNameOf } from "../../member-drivers/block-device.ts";

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
  return readFileSync("/proc/self/mountinfo", "utf8").split("\n");
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
  const parent = dirname(mountPath);
  if (!existsSync(parent)) return undefined;
  const path = join(realpathSync.native(parent), basename(mountPath));
  return mountsIn(linesOf(path, table)).findLast((mount) => mount.mountPath === path);
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
