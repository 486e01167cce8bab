// Where the filesystem on a device ends, by its superblocks on the device itself: the proof that precedes every cut. No cached value and
// nobody's word replaces it. Pure but for the reads.
import type { FileHandle } from "node:fs/promises";

export const KNOWN_FILESYSTEMS = ["btrfs", "ext4", "xfs"] as const;
export type KnownFilesystem = (typeof KNOWN_FILESYSTEMS)[number];

/** No superblock that can be believed; the message says what is wrong with it. */
export class SuperblockError extends Error {
  override name = "SuperblockError";
}

/**
 * The first byte behind the filesystem. `reachBytes`: how far the device will reach; of what is beyond nothing is read. Throws
 * SuperblockError.
 */
export async function readFilesystemEnd(
  device: FileHandle,
  type: KnownFilesystem,
  reachBytes: number,
): Promise<number> {
  const endBytes = await READERS[type](device, reachBytes);
  if (!Number.isSafeInteger(endBytes) || endBytes <= 0)
    throw new SuperblockError(`its ${type} superblock says that it is ${endBytes} bytes long`);
  return endBytes;
}

const READERS: Readonly<Record<KnownFilesystem, (device: FileHandle, reachBytes: number) => Promise<number>>> = {
  btrfs: btrfsEnd,
  ext4: ext4End,
  xfs: xfsEnd,
};

// struct btrfs_super_block, copies at 64 KiB, 64 MiB and 256 GiB.
const BTRFS_COPIES = [65_536, 64 << 20, 256 * 2 ** 30] as const;
const BTRFS_BYTES = 4096;
const BTRFS_MAGIC = "_BHRfS_M";
const BTRFS_FSID = 0x20;
const BTRFS_OWN_PLACE = 0x30;
const BTRFS_MAGIC_PLACE = 0x40;
const BTRFS_DEVICE_BYTES = 0xc9 + 8;

/** The largest of all copies: a rescue may fall back to any of them. */
async function btrfsEnd(device: FileHandle, reachBytes: number): Promise<number> {
  const copies: Buffer[] = [];
  for (const place of BTRFS_COPIES) {
    if (place + BTRFS_BYTES > reachBytes) continue;
    const block = await readBlock(device, place, BTRFS_BYTES);
    if (block.toString("latin1", BTRFS_MAGIC_PLACE, BTRFS_MAGIC_PLACE + BTRFS_MAGIC.length) !== BTRFS_MAGIC) continue;
    if (block.readBigUInt64LE(BTRFS_OWN_PLACE) !== BigInt(place))
      throw new SuperblockError(`the btrfs superblock at ${place} belongs to another place`);
    copies.push(block);
  }
  const [first] = copies;
  if (first === undefined) throw new SuperblockError("it has no btrfs superblock");
  const fsid = (block: Buffer): Buffer => block.subarray(BTRFS_FSID, BTRFS_FSID + 16);
  if (copies.some((copy) => !fsid(copy).equals(fsid(first))))
    throw new SuperblockError("its btrfs superblocks belong to different filesystems");
  return Math.max(...copies.map((copy) => Number(copy.readBigUInt64LE(BTRFS_DEVICE_BYTES))));
}

// struct ext4_super_block, at 1 KiB.
const EXT4_PLACE = 1024;
const EXT4_MAGIC = 0xef53;
const EXT4_64BIT = 0x80;

async function ext4End(device: FileHandle): Promise<number> {
  const block = await readBlock(device, EXT4_PLACE, 1024);
  if (block.readUInt16LE(0x38) !== EXT4_MAGIC) throw new SuperblockError("it has no ext4 superblock");
  const is64Bit = (block.readUInt32LE(0x60) & EXT4_64BIT) !== 0;
  const blocks = block.readUInt32LE(0x4) + (is64Bit ? block.readUInt32LE(0x150) * 2 ** 32 : 0);
  return blocks * 1024 * 2 ** block.readUInt32LE(0x18);
}

// struct xfs_dsb, at 0; big-endian.
const XFS_MAGIC = "XFSB";

async function xfsEnd(device: FileHandle): Promise<number> {
  const block = await readBlock(device, 0, 512);
  if (block.toString("latin1", 0, XFS_MAGIC.length) !== XFS_MAGIC)
    throw new SuperblockError("it has no xfs superblock");
  return block.readUInt32BE(4) * Number(block.readBigUInt64BE(8));
}

async function readBlock(device: FileHandle, place: number, bytes: number): Promise<Buffer> {
  const { buffer, bytesRead } = await device.read(Buffer.alloc(bytes), 0, bytes, place);
  if (bytesRead < bytes) throw new SuperblockError(`it ends before ${place + bytes} bytes`);
  return buffer;
}
