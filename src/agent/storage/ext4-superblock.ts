// How large an ext4 is, by its superblock: statfs leaves out what its own tables take. Read through the device's page cache, which
// is the kernel's own copy while it is mounted.
import { closeSync, openSync, readSync } from "node:fs";

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
const READ_ONLY_METADATA_CHECKSUMS = 0x400;

/** Bytes of all its blocks; undefined when the device carries no ext4. */
export function readExt4Bytes(device: string): number | undefined {
  const block = readSuperblock(device);
  if (block === undefined) return undefined;
  const is64Bit = (block.readUInt32LE(INCOMPATIBLE_OFFSET) & INCOMPATIBLE_64BIT) !== 0;
  const blocks =
    block.readUInt32LE(BLOCKS_LOW_OFFSET) + (is64Bit ? block.readUInt32LE(BLOCKS_HIGH_OFFSET) * 2 ** 32 : 0);
  return blocks * 1024 * 2 ** block.readUInt32LE(LOG_BLOCK_SIZE_OFFSET);
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
