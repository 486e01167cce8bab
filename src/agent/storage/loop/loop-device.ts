// Loop devices as the kernel shows them in /sys/block. Finding and reading only; attaching and detaching are steps of stage
// and unstage.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { expectSuccess, type Tools } from "../tools.ts";

const SECTOR_BYTES = 512;
/** A directory for each that is mounted, by its UUID. */
const BTRFS = "/sys/fs/btrfs";
/** What the kernel puts behind the name of a file that is deleted and still open: d_path(). */
const DELETED = " (deleted)";

/** Devices over this file, found by its inode: a path may read differently from another mount namespace. */
export async function findLoopDevices(tools: Tools, memberPath: string): Promise<string[]> {
  const listed = await tools.query("losetup", ["--noheadings", "--output", "NAME", "--associated", memberPath]);
  return expectSuccess(listed, `looking for the loop device of ${memberPath}`).split("\n").filter(Boolean);
}

/** Devices whose file has been deleted under them, by its name: its inode cannot be asked for any more. */
export function findOrphanedLoopDevices(memberFile: string): string[] {
  return readdirSync("/sys/block")
    .filter((name) => backingFile(name)?.endsWith(`/${memberFile}${DELETED}`) === true)
    .map((name) => `/dev/${name}`);
}

/** As the kernel names it; undefined where nothing is attached. */
function backingFile(name: string): string | undefined {
  try {
    return readFileSync(`/sys/block/${name}/loop/backing_file`, "utf8").trim();
  } catch {
    return undefined; // no loop device, or none any more
  }
}

export function deviceSizeBytes(device: string): number {
  return Number(readFileSync(`/sys/block/${basename(device)}/size`, "utf8")) * SECTOR_BYTES;
}

export function isLoopAttached(device: string): boolean {
  return existsSync(`/sys/block/${basename(device)}/loop/backing_file`);
}

/**
 * The device's mounted filesystem in sysfs, in any mount namespace; undefined when it is mounted nowhere. `likely`: the UUID of a btrfs
 * that is looked at first, since a node may have hundreds.
 */
export function mountedAnywhere(device: string, likely?: string): string | undefined {
  const name = basename(device);
  if (likely !== undefined && isOfBtrfs(likely, name)) return pathOfBtrfs(likely);
  const plain = [`/sys/fs/ext4/${name}`, `/sys/fs/xfs/${name}`].find((path) => existsSync(path));
  return plain ?? btrfsOn(name);
}

function btrfsOn(name: string): string | undefined {
  if (!existsSync(BTRFS)) return undefined;
  const fsid = readdirSync(BTRFS).find((one) => isOfBtrfs(one, name));
  return fsid === undefined ? undefined : pathOfBtrfs(fsid);
}

function isOfBtrfs(fsid: string, name: string): boolean {
  return existsSync(`${pathOfBtrfs(fsid)}/devices/${name}`);
}

function pathOfBtrfs(fsid: string): string {
  return `${BTRFS}/${fsid}`;
}
