// Superblocks as mkfs writes them, and their checksums, by a second reading of the formats.
import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { KnownFilesystem } from "../../src/lvmd/volumes/reduce/read-signature.ts";

/** Where the first one begins on a device. */
export const PLACES: Readonly<Record<KnownFilesystem, number>> = { btrfs: 65_536, ext4: 1024, xfs: 0 };
const BYTES: Readonly<Record<KnownFilesystem, number>> = { btrfs: 4096, ext4: 1024, xfs: 512 };
const PROGRAMS: Readonly<Record<KnownFilesystem, readonly (readonly string[])[]>> = {
  btrfs: [["mkfs.btrfs", "-q", "IMAGE"]],
  ext4: [
    ["mkfs.ext4", "-q", "IMAGE"],
    ["mkfs.ext4", "-q", "-O", "^64bit,^metadata_csum", "-b", "1024", "IMAGE"],
  ],
  xfs: [["mkfs.xfs", "-q", "-f", "IMAGE"]],
};

/** Of each way in which it is made. */
export function formatted(type: KnownFilesystem): Buffer[] {
  const directory = mkdtempSync(join(tmpdir(), "tidemark-superblocks-"));
  const image = join(directory, "image");
  try {
    return PROGRAMS[type].map(([program = "", ...args]) => {
      rmSync(image, { force: true });
      writeFileSync(image, "");
      truncateSync(image, 512 << 20);
      const env = { PATH: `${process.env["PATH"]}:/usr/sbin:/sbin` };
      execFileSync(
        program,
        args.map((arg) => (arg === "IMAGE" ? image : arg)),
        { stdio: "ignore", env },
      );
      return blockOf(image, type);
    });
  } finally {
    rmSync(directory, { recursive: true });
  }
}

function blockOf(image: string, type: KnownFilesystem): Buffer {
  const block = Buffer.alloc(BYTES[type]);
  const file = openSync(image, "r");
  readSync(file, block, 0, block.length, PLACES[type]);
  closeSync(file);
  return block;
}

/** Bit by bit, CRC-32C reflected, without the last inversion. */
/** Of half a byte each: what 16 values leave. */
const REMAINDERS = Int32Array.from({ length: 16 }, (_unused, nibble) => {
  let sum = nibble;
  for (let bit = 0; bit < 4; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? 0x82f63b78 : 0);
  return sum;
});

function crc32c(bytes: Buffer): number {
  let sum = 0xffffffff;
  for (let at = 0; at < bytes.length; at += 1) {
    sum ^= bytes[at] ?? 0;
    sum = (sum >>> 4) ^ (REMAINDERS[sum & 15] ?? 0);
    sum = (sum >>> 4) ^ (REMAINDERS[sum & 15] ?? 0);
  }
  return sum >>> 0;
}

interface Checksum {
  readonly at: number;
  readonly value: number;
}

/** Undefined: this one carries none. */
function checksumOf(type: KnownFilesystem, block: Buffer): Checksum | undefined {
  if (block.length < BYTES[type]) return undefined;
  if (type === "btrfs") return { at: 0, value: ~crc32c(block.subarray(32, 4096)) >>> 0 };
  if (type === "ext4")
    return (block.readUInt32LE(0x64) & 0x400) === 0
      ? undefined
      : { at: 0x3fc, value: crc32c(block.subarray(0, 0x3fc)) };
  if ((block.readUInt16BE(100) & 0xf) !== 5) return undefined;
  const cleared = Buffer.from(block.subarray(0, 512));
  cleared.fill(0, 224, 228);
  return { at: 224, value: ~crc32c(cleared) >>> 0 };
}

export function hasRightChecksum(type: KnownFilesystem, block: Buffer): boolean {
  const checksum = checksumOf(type, block);
  return checksum === undefined || block.readUInt32LE(checksum.at) === checksum.value;
}

/** The same with its checksum made right. */
export function checksummed(type: KnownFilesystem, block: Buffer): Buffer {
  const checksum = checksumOf(type, block);
  if (checksum === undefined) return block;
  const right = Buffer.from(block);
  right.writeUInt32LE(checksum.value, checksum.at);
  return right;
}
