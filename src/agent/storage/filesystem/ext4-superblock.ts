// What an ext4 says of itself in its superblock: its size, of which statfs leaves out what its own tables take, and how it was left. Read
// through the device's page cache, which is the kernel's own copy while it is mounted.
import { closeSync, openSync, readSync } from "node:fs";
import { uuidText } from "./uuid-text.ts";

// On-disk format: struct ext4_super_block, at 1 KiB.
const OFFSET_BYTES = 1024;
const LENGTH_BYTES = 1024;
const BLOCKS_LOW_OFFSET = 0x4;
const LOG_BLOCK_SIZE_OFFSET = 0x18;
const MAGIC_OFFSET = 0x38;
const INCOMPATIBLE_OFFSET = 0x60;
const READ_ONLY_COMPATIBLE_OFFSET = 0x64;
const BLOCKS_HIGH_OFFSET = 0x150;
const MAGIC = 0xef53;
const INCOMPATIBLE_64BIT = 0x80;
const INCOMPATIBLE_RECOVER = 0x4;
const RESERVED_BLOCKS_LOW_OFFSET = 0x8;
const RESERVED_BLOCKS_HIGH_OFFSET = 0x154;
const FREE_BLOCKS_LOW_OFFSET = 0xc;
const FREE_BLOCKS_HIGH_OFFSET = 0x158;
const MOUNTED_AT_OFFSET = 0x2c;
const MOUNTED_AT_HIGH_OFFSET = 0x275;
const MOUNT_COUNT_OFFSET = 0x34;
const STATE_OFFSET = 0x3a;
const STATE_VALID = 0x1;
const STATE_ERRORS = 0x2;
const UUID_OFFSET = 0x68;
const UUID_BYTES = 16;
const READ_ONLY_METADATA_CHECKSUMS = 0x400;

/** An ext4 that is not mounted. */
export interface Ext4State {
  readonly fsid: string;
  /** Of all its blocks. */
  readonly sizeBytes: number;
  /** All that it holds, its own tables among it. */
  readonly occupiedBytes: number;
  /** What only root may write to: nobody calls it available. It keeps its share of the size. */
  readonly reservedBytes: number;
  readonly blockBytes: number;
  /** Unmounted in good order: nothing is left to be replayed, and no error was met. */
  readonly isClean: boolean;
  /** When it was last mounted to be written, Unix time in seconds; nothing but such a mount changes it. */
  readonly mountedAtSeconds: number;
  /** Such mounts, since it was set to 0: e2fsck does so, and tune2fs; resize2fs does not. */
  readonly mountCount: number;
}

/** Bytes of all its blocks; undefined when the device carries no ext4. */
export function readExt4Bytes(device: string): number | undefined {
  const block = readSuperblock(device);
  return block && wideNumber(block, BLOCKS_LOW_OFFSET, BLOCKS_HIGH_OFFSET) * blockBytesOf(block);
}

/** Undefined when the device carries no ext4. */
export function readExt4State(device: string): Ext4State | undefined {
  const block = readSuperblock(device);
  if (block === undefined) return undefined;
  const blockBytes = blockBytesOf(block);
  const blocks = wideNumber(block, BLOCKS_LOW_OFFSET, BLOCKS_HIGH_OFFSET);
  const state = block.readUInt16LE(STATE_OFFSET);
  const mustReplay = (block.readUInt32LE(INCOMPATIBLE_OFFSET) & INCOMPATIBLE_RECOVER) !== 0;
  return {
    fsid: uuidText(block.subarray(UUID_OFFSET, UUID_OFFSET + UUID_BYTES)),
    sizeBytes: blocks * blockBytes,
    occupiedBytes: (blocks - wideNumber(block, FREE_BLOCKS_LOW_OFFSET, FREE_BLOCKS_HIGH_OFFSET)) * blockBytes,
    reservedBytes: wideNumber(block, RESERVED_BLOCKS_LOW_OFFSET, RESERVED_BLOCKS_HIGH_OFFSET) * blockBytes,
    blockBytes,
    isClean: (state & (STATE_VALID | STATE_ERRORS)) === STATE_VALID && !mustReplay,
    mountedAtSeconds: block.readUInt32LE(MOUNTED_AT_OFFSET) + block.readUInt8(MOUNTED_AT_HIGH_OFFSET) * 2 ** 32,
    mountCount: block.readUInt16LE(MOUNT_COUNT_OFFSET),
  };
}

function wideNumber(block: Buffer, lowOffset: number, highOffset: number): number {
  const is64Bit = (block.readUInt32LE(INCOMPATIBLE_OFFSET) & INCOMPATIBLE_64BIT) !== 0;
  return block.readUInt32LE(lowOffset) + (is64Bit ? block.readUInt32LE(highOffset) * 2 ** 32 : 0);
}

function blockBytesOf(block: Buffer): number {
  return 1024 * 2 ** block.readUInt32LE(LOG_BLOCK_SIZE_OFFSET);
}

/** Whether its blocks of metadata carry checksums, into which its UUID goes. */
export function hasExt4Checksums(device: string): boolean {
  const features = readSuperblock(device)?.readUInt32LE(READ_ONLY_COMPATIBLE_OFFSET) ?? 0;
  return (features & READ_ONLY_METADATA_CHECKSUMS) !== 0;
}

function readSuperblock(device: string): Buffer | undefined {
  const block = Buffer.alloc(LENGTH_BYTES);
  const file = openSync(device, "r");
  try {
    if (readSync(file, block, 0, LENGTH_BYTES, OFFSET_BYTES) < LENGTH_BYTES) return undefined;
  } finally {
    closeSync(file);
  }
  return block.readUInt16LE(MAGIC_OFFSET) === MAGIC ? block : undefined;
}
