// Which subvolumes of a btrfs may share its trees and extents, and where its last chunk ends. A relocation copies each tree that refers to what
// it moves, and merges all of these at its end; with 15 snapshots and 30 reflinked copies, Linux 6.18 met ENOSPC in that,
// with 74 of 77 MiB of metadata free, and forced the filesystem read-only (docs/architecture/shrink.md).
import type { OneMemberVolume } from "../block/block-member.ts";
import type { Subvolumes } from "../shrink-decision.ts";
import { type Mounted, type MountedFilesystem, StorageError } from "../storage.ts";
import { expectSuccess, type Tools } from "../tools.ts";

/** Of 100,000 subvolumes, or of 100 TiB in chunks. */
const OUTPUT_LIMIT_BYTES = 64 << 20;
const READ_LIMIT_MS = 60_000;
/** The device tree may be rewritten while it is read from the device. */
const READ_ATTEMPTS = 3;

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
