// What loop members are made with: this node's directories, programs and files, and the room there is. No behaviour of its own beyond
// naming and measuring.

import { readdirSync, statfsSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { formatBytes } from "../../../contracts/quantities/quantity.ts";
import type { FilePort } from "../../../platform/process/effects/file-port.ts";
import type { MemberRoom } from "../decide-shrink.ts";
import type { LoopVolume } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import type { Tools } from "../tools.ts";

export interface LoopHost {
  /** Where the member files are; never itself on a volume of ours. */
  readonly memberDirectory: string;
  /** The number of the device that the directory was on when this process began. */
  readonly memberDisk: number;
  /** Where their records are; may be the same directory. */
  readonly recordDirectory: string;
  readonly tools: Tools;
  readonly files: FilePort;
  /** Left free on the host's disk, in bytes, of a disk of so many: kubelet evicts pods from one that is nearly full. */
  readonly reserveBytes: (diskBytes: number) => number;
  /** Growth that was allowed and is not in the members' lengths yet. */
  readonly room: { claimedBytes: number };
}

/** Throws MembersMissing where the disk of the members was unmounted since: what is made now would be on the one below, and hidden later. */
export function assertMemberDisk({ memberDirectory, memberDisk }: LoopHost, volume: LoopVolume): void {
  if (statSync(memberDirectory).dev === memberDisk) return;
  throw new StorageError(
    "MembersMissing",
    `Mount the disk of ${memberDirectory} again, or restart the agent to use the one there now: ${volume.memberFile} is not made on another`,
  );
}

const STAT_BLOCK_BYTES = 512;

/** Throws on a name that would lead out of the member directory. */
export function memberPath(host: LoopHost, volume: LoopVolume): string {
  if (volume.memberFile !== basename(volume.memberFile) || volume.memberFile.startsWith("."))
    throw new StorageError("CommandFailed", `"${volume.memberFile}" of ${volume.handle} is not a plain file name`);
  return join(host.memberDirectory, volume.memberFile);
}

export interface MemberExtent {
  readonly sizeBytes: number;
  /** The part that has blocks on the disk. */
  readonly allocatedBytes: number;
}

export function memberExtent(path: string): MemberExtent | undefined {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined
    ? undefined
    : { sizeBytes: stat.size, allocatedBytes: Math.min(stat.size, stat.blocks * STAT_BLOCK_BYTES) };
}

/** What the host has left at this moment, promised or not. */
export function hostRoom(host: LoopHost, volume: LoopVolume): MemberRoom | undefined {
  const extent = memberExtent(memberPath(host, volume));
  if (extent === undefined) return undefined;
  const { bavail, bsize } = statfsSync(host.memberDirectory);
  return {
    place: `the filesystem of ${host.memberDirectory}`,
    freeBytes: bavail * bsize,
    holeBytes: extent.sizeBytes - extent.allocatedBytes,
    lagMs: 0,
  };
}

/**
 * Bytes that a member may still be made of: free on the host, less what is left to others and the holes of the members that are there. A
 * filesystem that fills its holes on a full host loses writes, so what is promised once is not promised again.
 */
export function hostFreeBytes(host: LoopHost): number {
  const { bavail, blocks, bsize } = statfsSync(host.memberDirectory);
  const promised = readdirSync(host.memberDirectory)
    .map((name) => memberExtent(`${host.memberDirectory}/${name}`))
    .reduce((sum, extent) => sum + (extent === undefined ? 0 : extent.sizeBytes - extent.allocatedBytes), 0);
  return Math.max(0, bavail * bsize - host.reserveBytes(blocks * bsize) - promised - host.room.claimedBytes);
}

/** Makes a member longer by growthBytes, where the host has room for that. Volumes that grow at the same time share what is left. */
export async function growWithinRoom(host: LoopHost, growthBytes: number, grow: () => Promise<void>): Promise<void> {
  assertHostHasRoom(host, growthBytes);
  host.room.claimedBytes += growthBytes;
  try {
    await grow();
  } finally {
    host.room.claimedBytes -= growthBytes;
  }
}

function assertHostHasRoom(host: LoopHost, growthBytes: number): void {
  const freeBytes = hostFreeBytes(host);
  if (growthBytes <= freeBytes) return;
  throw new StorageError(
    "DiskFull",
    `free space in ${host.memberDirectory} or lower the policy's max: it needs ${formatBytes(growthBytes)} more, ${formatBytes(freeBytes)} are left after claims and --eviction-reserve`,
  );
}
