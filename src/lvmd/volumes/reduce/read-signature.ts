// What is on a volume, asked of the device itself: every signature that libblkid knows, and where the one filesystem ends.

import { type FileHandle, open } from "node:fs/promises";
import * as z from "zod";
import { shortened } from "../../../contracts/printable.ts";
import { crc32c } from "../../../platform/crc32c.ts";
import { withTimeLimit } from "../../../platform/process/async/limited-wait.ts";
import type { CommandPort } from "../../../platform/process/effects/command-port.ts";
import { LvmError, toolOutput } from "../../lvm/lvm-error.ts";

export type Signature =
  | { readonly kind: "Filesystem"; readonly type: string; readonly endBytes: number }
  /** Nothing that could be proved to end anywhere; `what` completes "there is …". */
  | { readonly kind: "Unknown"; readonly what: string };

const WIPEFS = "/usr/sbin/wipefs";
const TIME_LIMIT_MS = 30_000;

/** `reachBytes`: how far the device is to reach. Throws LvmError where the device does not answer. */
export async function readSignature(commands: CommandPort, path: string, reachBytes: number): Promise<Signature> {
  const types = await signatureTypes(commands, path);
  const [type] = types;
  if (type === undefined) return { kind: "Unknown", what: "no filesystem on it" };
  const known = KNOWN_FILESYSTEMS.find((candidate) => candidate === type);
  if (types.length > 1 || known === undefined) return { kind: "Unknown", what: `${types.join(" and ")} on it` };
  try {
    return { kind: "Filesystem", type, endBytes: await withinLimit(readEnd(path, known, reachBytes), path) };
  } catch (error) {
    if (error instanceof SuperblockError) return { kind: "Unknown", what: `a ${type} on it, but ${error.message}` };
    throw error;
  }
}

async function signatureTypes(commands: CommandPort, path: string): Promise<string[]> {
  const args = ["--no-act", "--json", path];
  const stdout = await toolOutput(`wipefs of ${path}`, commands.query(WIPEFS, args, { timeLimitMs: TIME_LIMIT_MS }));
  if (stdout.trim() === "") return [];
  return [...new Set(listOf(stdout, path).map(({ type = "something" }) => type))];
}

const listed = z.object({ signatures: z.array(z.object({ type: z.string().optional() })).default([]) });

function listOf(stdout: string, path: string): z.infer<typeof listed>["signatures"] {
  try {
    return listed.parse(JSON.parse(stdout)).signatures;
  } catch (error) {
    throw new LvmError("Unreadable", `wipefs of ${path} gave no list of signatures: ${shortened(stdout, 200)}`, error);
  }
}

async function readEnd(path: string, type: (typeof KNOWN_FILESYSTEMS)[number], reachBytes: number): Promise<number> {
  const device = await open(path, "r");
  try {
    // What the filesystem has written is in the device's page cache; from here on it is on the disk as well.
    await device.sync();
    return await readFilesystemEnd(device, type, reachBytes);
  } finally {
    await device.close();
  }
}

function withinLimit<T>(work: Promise<T>, path: string): Promise<T> {
  const gone = work.then(
    () => undefined,
    () => undefined,
  );
  return withTimeLimit(work, TIME_LIMIT_MS, (limitMs) => {
    throw new LvmError("TimedOut", `${path} gave no superblock within ${limitMs} ms`, undefined, gone);
  });
}

// Where the filesystem on a device ends, by its superblocks on the device itself: the proof that precedes every cut. No cached value and no
// caller's word replaces it, and a wrong checksum proves nothing. Pure but for the reads.

const KNOWN_FILESYSTEMS = ["btrfs", "ext4", "xfs"] as const;
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
const BTRFS_CHECKSUM_TYPE = 0xc4;
const BTRFS_CRC32C = 0;
const BTRFS_CHECKED_PLACE = 0x20;
const BTRFS_DEVICE_BYTES = 0xc9 + 8;

/** The largest of all copies: a rescue may fall back to any of them. */
async function btrfsEnd(device: FileHandle, reachBytes: number): Promise<number> {
  const copies: Buffer[] = [];
  for (const place of BTRFS_COPIES) {
    if (place + BTRFS_BYTES > reachBytes) continue;
    const block = await readChecked(device, place, BTRFS_BYTES, (read) => !isBtrfs(read) || isRightBtrfs(read));
    if (!isBtrfs(block)) continue;
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

function isBtrfs(block: Buffer): boolean {
  return block.toString("latin1", BTRFS_MAGIC_PLACE, BTRFS_MAGIC_PLACE + BTRFS_MAGIC.length) === BTRFS_MAGIC;
}

/** Of the kind that mkfs.btrfs gives where it is not asked for another. */
function isRightBtrfs(block: Buffer): boolean {
  const type = block.readUInt16LE(BTRFS_CHECKSUM_TYPE);
  return type === BTRFS_CRC32C && block.readUInt32LE(0) === crc32c(block.subarray(BTRFS_CHECKED_PLACE));
}

// struct ext4_super_block, at 1 KiB.
const EXT4_PLACE = 1024;
const EXT4_MAGIC = 0xef53;
const EXT4_64BIT = 0x80;
const EXT4_CHECKSUMS = 0x400;
const EXT4_CHECKSUM_PLACE = 0x3fc;

async function ext4End(device: FileHandle): Promise<number> {
  const block = await readChecked(device, EXT4_PLACE, 1024, (read) => !isExt4(read) || isRightExt4(read));
  if (!isExt4(block)) throw new SuperblockError("it has no ext4 superblock");
  const is64Bit = (block.readUInt32LE(0x60) & EXT4_64BIT) !== 0;
  const blocks = block.readUInt32LE(0x4) + (is64Bit ? block.readUInt32LE(0x150) * 2 ** 32 : 0);
  return blocks * 1024 * 2 ** block.readUInt32LE(0x18);
}

function isExt4(block: Buffer): boolean {
  return block.readUInt16LE(0x38) === EXT4_MAGIC;
}

/** Of one without checksums nothing says more; theirs is not inverted at its end. */
function isRightExt4(block: Buffer): boolean {
  if ((block.readUInt32LE(0x64) & EXT4_CHECKSUMS) === 0) return true;
  return block.readUInt32LE(EXT4_CHECKSUM_PLACE) === ~crc32c(block.subarray(0, EXT4_CHECKSUM_PLACE)) >>> 0;
}

// struct xfs_dsb, at 0; big-endian but for the checksum, which is of the whole sector.
const XFS_MAGIC = "XFSB";
const XFS_VERSION = 100;
const XFS_SECTOR_BYTES = 102;
const XFS_CHECKSUM_PLACE = 224;
const XFS_SECTORS = [1024, 2048, 4096] as const;

async function xfsEnd(device: FileHandle): Promise<number> {
  const first = await readBlock(device, 0, 512);
  if (!isXfs(first)) throw new SuperblockError("it has no xfs superblock");
  const sectorBytes = XFS_SECTORS.find((bytes) => bytes === first.readUInt16BE(XFS_SECTOR_BYTES)) ?? first.length;
  const block = await readChecked(device, 0, sectorBytes, (read) => isXfs(read) && isRightXfs(read));
  return block.readUInt32BE(4) * Number(block.readBigUInt64BE(8));
}

function isXfs(block: Buffer): boolean {
  return block.toString("latin1", 0, XFS_MAGIC.length) === XFS_MAGIC;
}

/** Before version 5 there are no checksums. */
function isRightXfs(block: Buffer): boolean {
  if ((block.readUInt16BE(XFS_VERSION) & 0xf) < 5) return true;
  const checked = Buffer.from(block).fill(0, XFS_CHECKSUM_PLACE, XFS_CHECKSUM_PLACE + 4);
  return block.readUInt32LE(XFS_CHECKSUM_PLACE) === crc32c(checked);
}

/** The kernel may write it while it is read. */
const READ_ATTEMPTS = 3;

async function readChecked(
  device: FileHandle,
  place: number,
  bytes: number,
  isRight: (block: Buffer) => boolean,
): Promise<Buffer> {
  for (let attempt = 0; attempt < READ_ATTEMPTS; attempt += 1) {
    const block = await readBlock(device, place, bytes);
    if (isRight(block)) return block;
  }
  throw new SuperblockError(`the checksum of its superblock at ${place} is wrong, or of a kind that is not known here`);
}

async function readBlock(device: FileHandle, place: number, bytes: number): Promise<Buffer> {
  const { buffer, bytesRead } = await device.read(Buffer.alloc(bytes), 0, bytes, place);
  if (bytesRead < bytes) throw new SuperblockError(`it ends before ${place + bytes} bytes`);
  return buffer;
}
