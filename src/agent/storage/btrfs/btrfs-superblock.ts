// What btrfs has committed about itself, read from the superblocks in the member file (through the page cache that the loop
// device writes to) or on the member device. It is the proof that precedes every cut and every wipe of a member: no ioctl and
// no cached value replaces it.
import { closeSync, openSync, readSync } from "node:fs";
import type { FileRange } from "../../../process/file-port.ts";
import { crc32c } from "../../../units/crc32c.ts";
import { uuidText } from "../filesystem/uuid-text.ts";

export interface CommittedSize {
  readonly fsid: string;
  readonly devid: number;
  /** The largest of the copies within reach: a mount may fall back to any of them. */
  readonly deviceBytes: number;
}

// On-disk format: struct btrfs_super_block, copies at 64 KiB, 64 MiB and 256 GiB.
const COPY_OFFSETS_BYTES = [65_536, 64 << 20, 256 * 2 ** 30] as const;
const SUPERBLOCK_BYTES = 4096;
/** What reaches so far has the first copy alone. */
export const FIRST_COPY_END_BYTES = COPY_OFFSETS_BYTES[0] + SUPERBLOCK_BYTES;
const MAGIC = "_BHRfS_M";
const CHECKSUM_BYTES = 32;
const CHECKSUM_TYPE_OFFSET = 0xc4;
/** As mkfs.btrfs makes it where it is not asked for another. */
const CHECKSUM_CRC32C = 0;
/** The kernel may write it while it is read. */
const READ_ATTEMPTS = 3;
const FSID_OFFSET = 0x20;
const MAGIC_OFFSET = 0x40;
const DEVICE_ITEM_OFFSET = 0xc9;
const DEVICE_UUID_OFFSET = DEVICE_ITEM_OFFSET + 66;

/** Where the copies are on a device of this size. */
export function superblockRanges(deviceBytes: number): FileRange[] {
  return COPY_OFFSETS_BYTES.filter((offset) => offset + SUPERBLOCK_BYTES <= deviceBytes).map((offsetBytes) => ({
    offsetBytes,
    lengthBytes: SUPERBLOCK_BYTES,
  }));
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
    const read = superblockRanges(reachBytes).flatMap(({ offsetBytes }) => readCopy(file, offsetBytes) ?? []);
    const copies = read.filter((copy) => copy !== "damaged");
    const [first] = copies;
    if (first === undefined || copies.length < read.length) return undefined;
    const same = copies.filter(({ fsid }) => fsid === first.fsid);
    return { ...first, deviceBytes: Math.max(...same.map(({ deviceBytes }) => deviceBytes)) };
  } finally {
    closeSync(file);
  }
}

function readCopy(file: number, offset: number): CommittedSize | "damaged" | undefined {
  const block = Buffer.alloc(SUPERBLOCK_BYTES);
  for (let attempt = 0; attempt < READ_ATTEMPTS; attempt += 1) {
    if (readSync(file, block, 0, SUPERBLOCK_BYTES, offset) < SUPERBLOCK_BYTES) return undefined;
    if (block.toString("latin1", MAGIC_OFFSET, MAGIC_OFFSET + MAGIC.length) !== MAGIC) return undefined;
    if (hasRightChecksum(block))
      return {
        fsid: uuidText(block.subarray(FSID_OFFSET, FSID_OFFSET + 16)),
        devid: Number(block.readBigUInt64LE(DEVICE_ITEM_OFFSET)),
        deviceBytes: Number(block.readBigUInt64LE(DEVICE_ITEM_OFFSET + 8)),
      };
  }
  return "damaged";
}

function hasRightChecksum(block: Buffer): boolean {
  if (block.readUInt16LE(CHECKSUM_TYPE_OFFSET) !== CHECKSUM_CRC32C) return false;
  return block.readUInt32LE(0) === crc32c(block.subarray(CHECKSUM_BYTES));
}

/** Of the first superblock's bytes, magic number or not: the kernel clears only that where it takes a device out. All zero: undefined. */
export function deviceOfBlock(block: Buffer): { readonly fsid: string; readonly deviceUUID: string } | undefined {
  if (block.every((byte) => byte === 0)) return undefined;
  return {
    fsid: uuidText(block.subarray(FSID_OFFSET, FSID_OFFSET + 16)),
    deviceUUID: uuidText(block.subarray(DEVICE_UUID_OFFSET, DEVICE_UUID_OFFSET + 16)),
  };
}
