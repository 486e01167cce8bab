// Whether a member is as long as the filesystem on it, by the filesystem's own superblock. One that somebody has cut by hand is neither mounted
// nor resized: what was behind its end reads as zeros or as I/O errors, and the filesystem would find that out one file at a time. A member
// that cannot be read says nothing here: whoever uses it next meets the error.
import { closeSync, openSync, readSync } from "node:fs";
import type { FsType } from "../../../api/filesystem-layout.ts";
import { formatBytes } from "../../../units/quantity.ts";
import { FIRST_COPY_END_BYTES, readCommittedSize } from "../btrfs/btrfs-superblock.ts";
import { readExt4Bytes } from "../filesystem/ext4-superblock.ts";
import { StorageError } from "../storage.ts";

export interface MemberLength {
  readonly handle: string;
  readonly fsType: FsType;
  /** What people call the member. */
  readonly name: string;
  /** Where its superblock is read. */
  readonly path: string;
  readonly sizeBytes: number;
  /** What the filesystem has at least, where no superblock is there any more; absent: a member without one is new. */
  readonly deviceBytes?: number;
}

/** Throws MembersMissing, with the sizes found and expected. */
export function assertWholeMember({ handle, fsType, name, path, sizeBytes, deviceBytes }: MemberLength): void {
  const found = readEndBytes(fsType, path);
  if (found === "unreadable") return;
  const endBytes = found ?? deviceBytes;
  if (endBytes === undefined || endBytes <= sizeBytes) return;
  throw new StorageError(
    "MembersMissing",
    `Bring back what was cut off member ${name} of ${handle}, or restore the volume from a backup: the member has ` +
      `${formatBytes(sizeBytes)} (${sizeBytes} bytes), and its ${fsType} ends at ${formatBytes(endBytes)} (${endBytes} bytes). It is not ` +
      "mounted again, and its size does not change",
  );
}

function readEndBytes(fsType: FsType, path: string): number | undefined | "unreadable" {
  try {
    return filesystemEndBytes(fsType, path);
  } catch {
    return "unreadable";
  }
}

/** Undefined where no superblock of this type is. */
function filesystemEndBytes(fsType: FsType, path: string): number | undefined {
  switch (fsType) {
    case "btrfs":
      // The kernel mounts by the first copy: a later one may be older than a shrink.
      return readCommittedSize(path, FIRST_COPY_END_BYTES)?.deviceBytes;
    case "ext4":
      return readExt4Bytes(path);
    case "xfs":
      return readXfsBytes(path);
  }
}

// On-disk format: struct xfs_dsb, big-endian, at the beginning.
const XFS_MAGIC = "XFSB";
const XFS_BLOCK_BYTES_OFFSET = 4;
const XFS_BLOCKS_OFFSET = 8;
const XFS_READ_BYTES = 16;

function readXfsBytes(path: string): number | undefined {
  const block = Buffer.alloc(XFS_READ_BYTES);
  const file = openSync(path, "r");
  try {
    if (readSync(file, block, 0, XFS_READ_BYTES, 0) < XFS_READ_BYTES) return undefined;
  } finally {
    closeSync(file);
  }
  if (block.toString("latin1", 0, XFS_MAGIC.length) !== XFS_MAGIC) return undefined;
  return block.readUInt32BE(XFS_BLOCK_BYTES_OFFSET) * Number(block.readBigUInt64BE(XFS_BLOCKS_OFFSET));
}
