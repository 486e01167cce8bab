// Another fsid for a btrfs that is not mounted, by its superblocks alone: its blocks keep the one that they were written with, which from
// then on is the metadata UUID (feature metadata_uuid, kernel 5.0). btrfstune does the same through a commit of its own, after which the
// kernel cannot replay the log of what was fsynced last: a copy of a mounted filesystem would be lost. Pure.
import { crc32c } from "../../../units/crc32c.ts";

// On-disk format: struct btrfs_super_block.
const CHECKSUM_BYTES = 32;
const FSID_OFFSET = 0x20;
const PLACE_OFFSET = 0x30;
const FLAGS_OFFSET = 0x38;
const MAGIC_OFFSET = 0x40;
const DEVICES_OFFSET = 0x88;
const INCOMPATIBLE_OFFSET = 0xbc;
const CHECKSUM_TYPE_OFFSET = 0xc4;
const METADATA_UUID_OFFSET = 0x23b;
const UUID_BYTES = 16;
const MAGIC = "_BHRfS_M";
const FLAG_WRITTEN = 1n;
const FEATURE_METADATA_UUID = 0x400n;
const CHECKSUM_CRC32C = 0;

/** Why this superblock, read at `offsetBytes`, cannot be given another fsid; undefined where it can. */
export function problemOfSuperblock(block: Buffer, offsetBytes: number): string | undefined {
  if (block.toString("latin1", MAGIC_OFFSET, MAGIC_OFFSET + MAGIC.length) !== MAGIC) return "it is no btrfs superblock";
  if (block.readBigUInt64LE(PLACE_OFFSET) !== BigInt(offsetBytes)) return "it belongs to another place";
  const type = block.readUInt16LE(CHECKSUM_TYPE_OFFSET);
  if (type !== CHECKSUM_CRC32C) return `its checksums are of type ${type}, not crc32c`;
  if (block.readUInt32LE(0) !== crc32c(block.subarray(CHECKSUM_BYTES))) return "its checksum is wrong";
  const flags = block.readBigUInt64LE(FLAGS_OFFSET);
  if (flags !== FLAG_WRITTEN)
    return `its flags are 0x${flags.toString(16)}: a seed, or in the middle of another change`;
  const devices = block.readBigUInt64LE(DEVICES_OFFSET);
  return devices === 1n ? undefined : `the filesystem has ${devices} devices, not 1`;
}

/** A superblock without a problem, with this fsid. The same again is the same. */
export function withFsid(block: Buffer, fsid: string): Buffer {
  const renamed = Buffer.from(block);
  const features = block.readBigUInt64LE(INCOMPATIBLE_OFFSET);
  const wanted = Buffer.from(fsid.replaceAll("-", ""), "hex");
  if (fsidOfBlock(block).equals(wanted)) return renamed;
  if ((features & FEATURE_METADATA_UUID) === 0n) fsidOfBlock(block).copy(renamed, METADATA_UUID_OFFSET);
  renamed.writeBigUInt64LE(features | FEATURE_METADATA_UUID, INCOMPATIBLE_OFFSET);
  wanted.copy(renamed, FSID_OFFSET);
  renamed.fill(0, 0, CHECKSUM_BYTES);
  renamed.writeUInt32LE(crc32c(renamed.subarray(CHECKSUM_BYTES)), 0);
  return renamed;
}

function fsidOfBlock(block: Buffer): Buffer {
  return block.subarray(FSID_OFFSET, FSID_OFFSET + UUID_BYTES);
}
