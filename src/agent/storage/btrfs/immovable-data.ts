// Why data of a mounted btrfs is not moved: profiles that shrinks were not proven on, subvolumes that may share its trees and extents, and
// active swapfiles; and where its last chunk ends. Its user may change each of them at any time. Reading only.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { OneMemberVolume } from "../block/block-member.ts";
import { type Subvolumes, sharingProblem } from "../decide-shrink.ts";
import {
  deviceNameOf,
  type Mount,
  mountedDeviceNames,
  parseMounts,
  unescapeOctal,
} from "../filesystem/devices-and-mounts.ts";
import type { Mounted, MountedFilesystem, MountedSpan } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { expectSuccess, type Tools } from "../tools.ts";

export type BlockGroupKind = "data" | "metadata" | "system";

export function allocationDirectory(fsid: string): string {
  return join("/sys/fs/btrfs", fsid, "allocation");
}

/** As sysfs names them; while they are converted there are two. Empty: it has no block group of that kind. */
export function readProfiles(fsid: string, kind: BlockGroupKind): string[] {
  const entries = readdirSync(join(allocationDirectory(fsid), kind), { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

/** Our filesystems begin with these (mkfs.btrfs of one device), and shrinks were proven on no others. */
const SHRINKABLE: Readonly<Record<BlockGroupKind, string>> = { data: "single", metadata: "dup", system: "dup" };

/** Why it is not made smaller, in words; undefined: its profiles are those that shrinks were proven on. */
export function foreignProfile(fsid: string): string | undefined {
  const foreign = Object.entries(SHRINKABLE).flatMap(([kind, expected]) => {
    const others = readProfiles(fsid, kind as BlockGroupKind).filter((name) => name !== expected);
    return others.length === 0 ? [] : [{ kind, expected, found: others.join(" and ") }];
  });
  const [first] = foreign;
  if (first === undefined) return undefined;
  const { kind, expected, found } = first;
  return `convert its ${kind} back from ${found}, since only ${expected} is made smaller: btrfs balance start -${kind[0]}convert=${expected}`;
}

/** Of 100,000 subvolumes, or of 100 TiB in chunks. */
const OUTPUT_LIMIT_BYTES = 64 << 20;
const READ_LIMIT_MS = 60_000;
/** The device tree may be rewritten while it is read from the device. */
const READ_ATTEMPTS = 3;

/**
 * Subvolumes may share trees and extents. A relocation copies each tree that refers to what it moves, and merges all of these at its end;
 * with 15 snapshots and 30 reflinked copies, Linux 6.18 met ENOSPC in that, with 74 of 77 MiB of metadata free, and forced the filesystem
 * read-only (docs/architecture/shrink.md).
 */
export async function countSubvolumes(tools: Tools, volume: MountedFilesystem): Promise<Subvolumes> {
  const task = `asking btrfs ${volume.fsid} of ${volume.handle} for its subvolumes`;
  const count = async (...which: readonly string[]): Promise<number> => {
    const args = ["subvolume", "list", ...which, volume.mountPath];
    const listed = await tools.query("btrfs", args, READ_LIMIT_MS, OUTPUT_LIMIT_BYTES);
    return parseSubvolumes(expectSuccess(listed, task));
  };
  return { others: await count(), snapshots: await count("-s"), deleted: await count("-d") };
}

export function parseSubvolumes(text: string): number {
  return text.split("\n").filter((line) => line.startsWith("ID ")).length;
}

/** Bytes from the device's begin; behind that nothing lies that a smaller size would move. Of a btrfs of one device that was synced. */
export async function lastChunkEnd(tools: Tools, { handle, device, fsid }: Mounted<OneMemberVolume>): Promise<number> {
  const task = `reading the device tree of btrfs ${fsid} of ${handle} from ${device}`;
  for (let attempt = 1; ; attempt += 1) {
    // The kernel writes it past the device's page cache, which may still hold what was read before.
    expectSuccess(await tools.query("blockdev", ["--flushbufs", device]), task);
    const dumped = await tools.query(
      "btrfs",
      ["inspect-internal", "dump-tree", "-t", "dev", device],
      READ_LIMIT_MS,
      OUTPUT_LIMIT_BYTES,
    );
    const endBytes = dumped.exitCode === 0 ? parseLastChunkEnd(dumped.stdout) : undefined;
    if (endBytes !== undefined) return endBytes;
    if (attempt === READ_ATTEMPTS)
      throw new StorageError("CommandFailed", `${task}: ${dumped.stderr.trim() || "it names no chunk"}`);
  }
}

const EXTENT = /item \d+ key \(\d+ DEV_EXTENT (\d+)\)/;
const LENGTH = /chunk_offset \d+ length (\d+)/;

/** Undefined where it names none, since a btrfs always has some, or one without its length: nothing is then known to be free. */
export function parseLastChunkEnd(text: string): number | undefined {
  let offset: number | undefined;
  let lastEnd: number | undefined;
  for (const line of text.split("\n")) {
    const begin = EXTENT.exec(line)?.[1];
    if (begin !== undefined && offset !== undefined) return undefined;
    offset = begin === undefined ? offset : Number(begin);
    const length = LENGTH.exec(line)?.[1];
    if (length === undefined || offset === undefined) continue;
    lastEnd = Math.max(lastEnd ?? 0, offset + Number(length));
    offset = undefined;
  }
  return offset === undefined && Number.isSafeInteger(lastEnd) ? lastEnd : undefined;
}

/**
 * The kernel moves no data of an active swapfile, and lets the device that it is on leave no span (ETXTBSY at once, nothing is changed).
 * Other devices leave all the same. Why nothing is begun that would move one, in words; undefined: no swapfile of the node is on it. A
 * swapfile by a container's own path is not found.
 */
export function swapfileProblem(fsid: string): string | undefined {
  const paths = swapfilePaths(readFileSync("/proc/swaps", "utf8"));
  if (paths.length === 0) return undefined;
  const mounts = parseMounts(readFileSync("/proc/self/mountinfo", "utf8"));
  const own = swapfilesOn(paths, mounts, mountedDeviceNames(fsid));
  return own.length === 0 ? undefined : describeSwapfile(own.join(", "));
}

/** For people, where the kernel has refused for one. */
export function describeSwapfiles(fsid: string): string {
  const paths = swapfilePaths(readFileSync("/proc/swaps", "utf8"));
  return (
    swapfileProblem(fsid) ?? describeSwapfile(paths.length === 0 ? undefined : `one of the node's: ${paths.join(", ")}`)
  );
}

function describeSwapfile(named: string | undefined): string {
  const files = named === undefined ? "" : ` (${named})`;
  return `an active swapfile is on it${files}, and the kernel moves no data of one: swapoff it first`;
}

/** Of the text of /proc/swaps; partitions are left out. */
export function swapfilePaths(swaps: string): string[] {
  const paths = swaps.split("\n").map((line) => /^(\S+)\s+file\s/.exec(line)?.[1]);
  return paths.filter((path) => path !== undefined).map(unescapeOctal);
}

/** Those whose nearest mount is one of a btrfs of these devices, by their names in sysfs. */
export function swapfilesOn(
  paths: readonly string[],
  mounts: readonly Mount[],
  deviceNames: readonly string[],
): string[] {
  return paths.filter((path) => {
    const mount = nearestMount(path, mounts);
    return mount?.fsType === "btrfs" && deviceNames.includes(deviceNameOf(mount.source));
  });
}

/** Of several at one path the last: it hides the others. */
function nearestMount(path: string, mounts: readonly Mount[]): Mount | undefined {
  const above = mounts.filter(({ mountPath }) => mountPath === "/" || path.startsWith(`${mountPath}/`));
  return above.reduce<Mount | undefined>(
    (nearest, mount) => (mount.mountPath.length >= (nearest?.mountPath.length ?? 0) ? mount : nearest),
    undefined,
  );
}

/**
 * Why data of a mounted span is not moved from one member to another: with what its user has made of it, a move may force it read-only. In
 * words; undefined: it is moved. A member without any data leaves all the same.
 */
export async function whyImmovable(tools: Tools, volume: MountedSpan): Promise<string | undefined> {
  return foreignProfile(volume.fsid) ?? sharingProblem(await countSubvolumes(tools, volume));
}
