// How many subvolumes of a btrfs may share its extents, and where its last chunk ends. A relocation copies each tree that refers to what it
// moves, and merges all of these at its end; with 150 snapshots and a writer, Linux 6.18 met ENOSPC in that, with a third of the
// device unallocated, and forced the filesystem read-only (docs/architecture/shrink.md). No figure that shows it beforehand is known.
import type { OneMemberVolume } from "./block-member.ts";
import { type Mounted, type MountedFilesystem, StorageError } from "./storage.ts";
import { expectSuccess, type Tools } from "./tools.ts";

/** Of 100,000 subvolumes, or of 100 TiB in chunks. */
const OUTPUT_LIMIT_BYTES = 64 << 20;
const READ_LIMIT_MS = 60_000;
/** The device tree may be rewritten while it is read from the device. */
const READ_ATTEMPTS = 3;

/** The top level and all others, also those that were deleted and are not cleaned up yet. */
export async function countSubvolumes(tools: Tools, volume: MountedFilesystem): Promise<number> {
  const task = `asking btrfs ${volume.fsid} of ${volume.handle} for its subvolumes`;
  let count = 1;
  for (const which of [[], ["-d"]]) {
    const listed = await tools.query(
      "btrfs",
      ["subvolume", "list", ...which, volume.mountPath],
      READ_LIMIT_MS,
      OUTPUT_LIMIT_BYTES,
    );
    count += parseSubvolumes(expectSuccess(listed, task));
  }
  return count;
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

const EXTENT = /key \(\d+ DEV_EXTENT (\d+)\)[^]*?chunk_offset \d+ length (\d+)/g;

/** Undefined where it names none: a btrfs always has some. */
export function parseLastChunkEnd(text: string): number | undefined {
  const ends = [...text.matchAll(EXTENT)].map(([, offset, length]) => Number(offset) + Number(length));
  return ends.length === 0 ? undefined : ends.reduce((last, end) => Math.max(last, end));
}
