// What btrfs, ext4 and xfs say of themselves in their superblocks, read through the page cache of the device or the member file, and
// whether a member is as long as the filesystem on it. It is the proof that precedes every cut and every wipe of a member: no ioctl and no
// cached value replaces it.

import { closeSync, openSync, readSync } from "node:fs";
import type { FsType } from "../../../contracts/kinds/filesystem-layout.ts";
import { crc32c } from "../../../platform/crc32c.ts";
import type { FileRange } from "../../../platform/process/effects/file-port.ts";
import { StorageError } from "../storage-error.ts";

/** Of its 16 bytes. */
function uuidText(bytes: Buffer): string {
  const hex = bytes.toString("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

export interface CommittedSize {
  readonly fsid: string;
  readonly devid: number;
  /** The largest of the copies within reach: a mount may fall back to any of them. */
  readonly deviceBytes: number;
}

// On-disk format: struct btrfs_super_block, copies at 64 KiB, 64 MiB and 256 GiB.
const BTRFS_COPY_OFFSETS_BYTES = [65_536, 64 << 20, 256 * 2 ** 30] as const;
const BTRFS_SUPERBLOCK_BYTES = 4096;
/** What reaches so far has the first copy alone. */
const BTRFS_FIRST_COPY_END_BYTES = BTRFS_COPY_OFFSETS_BYTES[0] + BTRFS_SUPERBLOCK_BYTES;
const BTRFS_MAGIC = "_BHRfS_M";
const BTRFS_CHECKSUM_BYTES = 32;
const BTRFS_CHECKSUM_TYPE_OFFSET = 0xc4;
/** As mkfs.btrfs makes it where it is not asked for another. */
const BTRFS_CHECKSUM_CRC32C = 0;
/** The kernel may write it while it is read. */
const BTRFS_READ_ATTEMPTS = 3;
const BTRFS_FSID_OFFSET = 0x20;
const BTRFS_MAGIC_OFFSET = 0x40;
const BTRFS_DEVICE_ITEM_OFFSET = 0xc9;
const BTRFS_DEVICE_UUID_OFFSET = BTRFS_DEVICE_ITEM_OFFSET + 66;

/** Where the copies are on a device of this size. */
export function btrfsSuperblockRanges(deviceBytes: number): FileRange[] {
  return BTRFS_COPY_OFFSETS_BYTES.filter((offset) => offset + BTRFS_SUPERBLOCK_BYTES <= deviceBytes).map(
    (offsetBytes) => ({
      offsetBytes,
      lengthBytes: BTRFS_SUPERBLOCK_BYTES,
    }),
  );
}

/**
 * Undefined when the file carries no btrfs, or a copy within reach has a wrong checksum: then nothing is proven. `reachBytes`: how far the member will reach. A copy beyond it is not read: the kernel no longer
 * writes one that lies behind the filesystem's end.
 */
export function readCommittedSize(
  memberPath: string,
  reachBytes: number = Number.POSITIVE_INFINITY,
): CommittedSize | undefined {
  const file = openSync(memberPath, "r");
  try {
    const read = btrfsSuperblockRanges(reachBytes).flatMap(({ offsetBytes }) => readBtrfsCopy(file, offsetBytes) ?? []);
    const copies = read.filter((copy) => copy !== "damaged");
    const [first] = copies;
    if (first === undefined || copies.length < read.length) return undefined;
    const same = copies.filter(({ fsid }) => fsid === first.fsid);
    return { ...first, deviceBytes: Math.max(...same.map(({ deviceBytes }) => deviceBytes)) };
  } finally {
    closeSync(file);
  }
}

function readBtrfsCopy(file: number, offset: number): CommittedSize | "damaged" | undefined {
  const block = Buffer.alloc(BTRFS_SUPERBLOCK_BYTES);
  for (let attempt = 0; attempt < BTRFS_READ_ATTEMPTS; attempt += 1) {
    if (readSync(file, block, 0, BTRFS_SUPERBLOCK_BYTES, offset) < BTRFS_SUPERBLOCK_BYTES) return undefined;
    if (block.toString("latin1", BTRFS_MAGIC_OFFSET, BTRFS_MAGIC_OFFSET + BTRFS_MAGIC.length) !== BTRFS_MAGIC)
      return undefined;
    if (hasRightBtrfsChecksum(block))
      return {
        fsid: uuidText(block.subarray(BTRFS_FSID_OFFSET, BTRFS_FSID_OFFSET + 16)),
        devid: Number(block.readBigUInt64LE(BTRFS_DEVICE_ITEM_OFFSET)),
        deviceBytes: Number(block.readBigUInt64LE(BTRFS_DEVICE_ITEM_OFFSET + 8)),
      };
  }
  return "damaged";
}

function hasRightBtrfsChecksum(block: Buffer): boolean {
  if (block.readUInt16LE(BTRFS_CHECKSUM_TYPE_OFFSET) !== BTRFS_CHECKSUM_CRC32C) return false;
  return block.readUInt32LE(0) === crc32c(block.subarray(BTRFS_CHECKSUM_BYTES));
}

/** Of the first superblock's bytes, magic number or not: the kernel clears only that where it takes a device out. All zero: undefined. */
export function btrfsDeviceOfBlock(block: Buffer): { readonly fsid: string; readonly deviceUUID: string } | undefined {
  if (block.every((byte) => byte === 0)) return undefined;
  return {
    fsid: uuidText(block.subarray(BTRFS_FSID_OFFSET, BTRFS_FSID_OFFSET + 16)),
    deviceUUID: uuidText(block.subarray(BTRFS_DEVICE_UUID_OFFSET, BTRFS_DEVICE_UUID_OFFSET + 16)),
  };
}

// On-disk format: struct ext4_super_block, at 1 KiB.
const EXT4_OFFSET_BYTES = 1024;
const EXT4_LENGTH_BYTES = 1024;
const EXT4_BLOCKS_LOW_OFFSET = 0x4;
const EXT4_LOG_BLOCK_SIZE_OFFSET = 0x18;
const EXT4_MAGIC_OFFSET = 0x38;
const EXT4_INCOMPATIBLE_OFFSET = 0x60;
const EXT4_READ_ONLY_COMPATIBLE_OFFSET = 0x64;
const EXT4_BLOCKS_HIGH_OFFSET = 0x150;
const EXT4_MAGIC = 0xef53;
const EXT4_INCOMPATIBLE_64BIT = 0x80;
const EXT4_INCOMPATIBLE_RECOVER = 0x4;
const EXT4_RESERVED_BLOCKS_LOW_OFFSET = 0x8;
const EXT4_RESERVED_BLOCKS_HIGH_OFFSET = 0x154;
const EXT4_FREE_BLOCKS_LOW_OFFSET = 0xc;
const EXT4_FREE_BLOCKS_HIGH_OFFSET = 0x158;
const EXT4_MOUNTED_AT_OFFSET = 0x2c;
const EXT4_MOUNTED_AT_HIGH_OFFSET = 0x275;
const EXT4_MOUNT_COUNT_OFFSET = 0x34;
const EXT4_STATE_OFFSET = 0x3a;
const EXT4_STATE_VALID = 0x1;
const EXT4_STATE_ERRORS = 0x2;
const EXT4_UUID_OFFSET = 0x68;
const EXT4_UUID_BYTES = 16;
const EXT4_READ_ONLY_METADATA_CHECKSUMS = 0x400;

/** An ext4 that is not mounted. */
export interface Ext4State {
  readonly fsid: string;
  /** Of all its blocks. */
  readonly sizeBytes: number;
  /** All that it holds, its own tables among it. */
  readonly occupiedBytes: number;
  /** What only root may write to, so that it does not count as available. Its share of the size stays the same. */
  readonly reservedBytes: number;
  readonly blockBytes: number;
  /** Unmounted in good order: nothing is left to be replayed, and no error was met. */
  readonly isClean: boolean;
  /** When it was last mounted to be written, Unix time in seconds; nothing but such a mount changes it. */
  readonly mountedAtSeconds: number;
  /** Such mounts, since it was set to 0: e2fsck does so, and tune2fs; resize2fs does not. */
  readonly mountCount: number;
}

/** Bytes of all its blocks; undefined when the device carries no ext4. statfs leaves out what its own tables take. */
export function readExt4Bytes(device: string): number | undefined {
  const block = readExt4Superblock(device);
  return block && wideNumber(block, EXT4_BLOCKS_LOW_OFFSET, EXT4_BLOCKS_HIGH_OFFSET) * ext4BlockBytes(block);
}

/** Undefined when the device carries no ext4. */
export function readExt4State(device: string): Ext4State | undefined {
  const block = readExt4Superblock(device);
  if (block === undefined) return undefined;
  const blockBytes = ext4BlockBytes(block);
  const blocks = wideNumber(block, EXT4_BLOCKS_LOW_OFFSET, EXT4_BLOCKS_HIGH_OFFSET);
  const state = block.readUInt16LE(EXT4_STATE_OFFSET);
  const mustReplay = (block.readUInt32LE(EXT4_INCOMPATIBLE_OFFSET) & EXT4_INCOMPATIBLE_RECOVER) !== 0;
  return {
    fsid: uuidText(block.subarray(EXT4_UUID_OFFSET, EXT4_UUID_OFFSET + EXT4_UUID_BYTES)),
    sizeBytes: blocks * blockBytes,
    occupiedBytes: (blocks - wideNumber(block, EXT4_FREE_BLOCKS_LOW_OFFSET, EXT4_FREE_BLOCKS_HIGH_OFFSET)) * blockBytes,
    reservedBytes: wideNumber(block, EXT4_RESERVED_BLOCKS_LOW_OFFSET, EXT4_RESERVED_BLOCKS_HIGH_OFFSET) * blockBytes,
    blockBytes,
    isClean: (state & (EXT4_STATE_VALID | EXT4_STATE_ERRORS)) === EXT4_STATE_VALID && !mustReplay,
    mountedAtSeconds:
      block.readUInt32LE(EXT4_MOUNTED_AT_OFFSET) + block.readUInt8(EXT4_MOUNTED_AT_HIGH_OFFSET) * 2 ** 32,
    mountCount: block.readUInt16LE(EXT4_MOUNT_COUNT_OFFSET),
  };
}

function wideNumber(block: Buffer, lowOffset: number, highOffset: number): number {
  const is64Bit = (block.readUInt32LE(EXT4_INCOMPATIBLE_OFFSET) & EXT4_INCOMPATIBLE_64BIT) !== 0;
  return block.readUInt32LE(lowOffset) + (is64Bit ? block.readUInt32LE(highOffset) * 2 ** 32 : 0);
}

function ext4BlockBytes(block: Buffer): number {
  return 1024 * 2 ** block.readUInt32LE(EXT4_LOG_BLOCK_SIZE_OFFSET);
}

/** Whether its blocks of metadata carry checksums, into which its UUID goes. */
export function hasExt4Checksums(device: string): boolean {
  const features = readExt4Superblock(device)?.readUInt32LE(EXT4_READ_ONLY_COMPATIBLE_OFFSET) ?? 0;
  return (features & EXT4_READ_ONLY_METADATA_CHECKSUMS) !== 0;
}

function readExt4Superblock(device: string): Buffer | undefined {
  const block = Buffer.alloc(EXT4_LENGTH_BYTES);
  const file = openSync(device, "r");
  try {
    if (readSync(file, block, 0, EXT4_LENGTH_BYTES, EXT4_OFFSET_BYTES) < EXT4_LENGTH_BYTES) return undefined;
  } finally {
    closeSync(file);
  }
  return block.readUInt16LE(EXT4_MAGIC_OFFSET) === EXT4_MAGIC ? block : undefined;
}

export interface MemberLength {
  readonly fsType: FsType;
  /** What people call the member. */
  readonly name: string;
  /** Where its superblock is read. */
  readonly path: string;
  readonly sizeBytes: number;
  /** What the filesystem has at least, where its superblock is gone; absent: a member without a superblock is new. */
  readonly deviceBytes?: number;
}

/**
 * Throws MembersMissing, with the sizes found and expected. A member that was cut by hand is neither mounted nor resized: what was behind
 * its end reads as zeros or as I/O errors, and the filesystem would find that out one file at a time. A member that cannot be read says
 * nothing here: its next use meets the error.
 */
export function assertWholeMember({ fsType, name, path, sizeBytes, deviceBytes }: MemberLength): void {
  const found = readEndBytes(fsType, path);
  if (found === "unreadable") return;
  const endBytes = found ?? deviceBytes;
  if (endBytes === undefined || endBytes <= sizeBytes) return;
  throw new StorageError(
    "MembersMissing",
    `Bring back what was cut off member ${name}, or restore a backup: it has ${sizeBytes} bytes, and its ${fsType} needs ${endBytes}`,
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
      return readCommittedSize(path, BTRFS_FIRST_COPY_END_BYTES)?.deviceBytes;
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
