// What a filesystem holds at this instant, read by the demo itself so that it need not believe any of the processes. On btrfs
// what writers have reserved counts as used: statfs shows it only after a commit.
import { readdirSync, readFileSync, statfsSync, statSync } from "node:fs";
import { join } from "node:path";
import { OVERHEAD_BYTES } from "../writers/simulated-room.ts";

export interface Space {
  readonly capacityBytes: number;
  readonly availableBytes: number;
}

export type SpaceReader = () => Space;

const STAT_BLOCK_BYTES = 512;
const RESERVATIONS = ["bytes_may_use", "bytes_reserved"] as const;

/** Of a mounted btrfs. */
export function btrfsSpaceReader(mountPath: string, fsid: string): SpaceReader {
  const directory = `/sys/fs/btrfs/${fsid}/allocation/data`;
  return () => {
    const { blocks, bavail, bsize } = statfsSync(mountPath);
    const reservedBytes = RESERVATIONS.reduce(
      (sum, name) => sum + Number(readFileSync(`${directory}/${name}`, "utf8")),
      0,
    );
    return { capacityBytes: blocks * bsize, availableBytes: Math.max(0, bavail * bsize - reservedBytes) };
  };
}

/** Of a directory that stands for a filesystem: the capacity is a number in a file, its files and the overhead are what is used. */
export function simulatedSpaceReader(directory: string, capacityFile: string): SpaceReader {
  return () => {
    const capacityBytes = Number(readFileSync(capacityFile, "utf8"));
    const usedBytes = OVERHEAD_BYTES + allocatedBytesUnder(directory);
    return { capacityBytes, availableBytes: Math.max(0, capacityBytes - usedBytes) };
  };
}

/** What a resize, balance or removal of the filesystem does in the kernel, "none" when nothing. */
export function exclusiveOperation(fsid: string): string {
  try {
    return readFileSync(`/sys/fs/btrfs/${fsid}/exclusive_operation`, "utf8").trim();
  } catch {
    return "none"; // not mounted
  }
}

/** Bytes that all files of a directory, but not of those in it, take up on the disk under it. */
export function allocatedBytesUnder(directory: string): number {
  let bytes = 0;
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const stat = entry.isFile() ? statSync(join(directory, entry.name), { throwIfNoEntry: false }) : undefined;
    bytes += (stat?.blocks ?? 0) * STAT_BLOCK_BYTES;
  }
  return bytes;
}
