// The first stage of a volume that was made as a copy: the filesystem on it is its source's, down to the UUID, and the source may be
// mounted next to it. It gets this volume's own UUID before it is ever mounted, and is never formatted. What says that it is still to
// be done stands on the volume itself, and is taken away last: the same again after a crash goes on, or finds it done.

import { crc32c } from "../../../platform/crc32c.ts";
import { deviceSizeBytes } from "../filesystem/devices-and-mounts.ts";
import { btrfsSuperblockRanges, hasExt4Checksums } from "../filesystem/superblocks.ts";
import type { FilesystemVolume } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { expectSuccess } from "../tools.ts";
import type { BlockHost, MemberContents, MemberNames, OneMemberVolume } from "./block-member.ts";
import { readMemberRecord } from "./member-record.ts";
import { probe, waitForExclusive } from "./probe-device.ts";

/** e2fsck looks at all of it where its journal is not enough; xfs replays its log. */
const CHECK_LIMIT_MS = 600_000;

type RenameHost = Pick<BlockHost<OneMemberVolume>, "tools" | "files" | "recordDirectory">;

/** Touches nothing of a volume that is not a copy, or whose copy is its own by now. No process holds the device. */
export async function takeCopy<V extends OneMemberVolume>(
  host: BlockHost<V, MemberNames<V> & MemberContents<V>>,
  volume: V,
  device: string,
): Promise<void> {
  const { members, recordDirectory, tools } = host;
  if (readMemberRecord(recordDirectory, members.recordName(volume)) !== undefined) return;
  if (!(await members.isCopy(volume))) return;
  const name = `member ${members.nameOf(volume)} of ${volume.handle}`;
  const signatures = await probe(tools, volume, device);
  if (signatures.length === 0)
    throw new StorageError(
      "AlreadyFormatted",
      `delete the claim, and copy the source again once a pod has used it: ${name} is a copy of a volume without a filesystem, and is not formatted`,
    );
  const other = signatures.find(({ type }) => type !== volume.fsType);
  if (other !== undefined)
    throw new StorageError(
      "WrongFilesystem",
      `delete the claim, and copy it with a StorageClass of fsType ${other.type}: ${name} is a copy with ${other.type}, and the volume is to be ${volume.fsType}`,
    );
  await RENAME[volume.fsType](host, volume, device);
  const renamed = await probe(tools, volume, device);
  if (renamed.length === 0 || renamed.some(({ type, uuid }) => type !== volume.fsType || uuid !== volume.fsid))
    throw new StorageError(
      "CommandFailed",
      `${name} was to get the UUID ${volume.fsid}, and has ${renamed.map(({ uuid }) => uuid).join(", ") || "none"}; it is not mounted. ` +
        "Delete the claim, and copy the source again",
    );
  await members.noteRenamed(volume);
}

const RENAME: Readonly<
  Record<FilesystemVolume["fsType"], (host: RenameHost, volume: FilesystemVolume, device: string) => Promise<void>>
> = {
  btrfs: renameBtrfs,
  ext4: renameExt4,
  xfs: renameXfs,
};

/** The kernel reads the first superblock alone, and writes the others again with its first commit. */
async function renameBtrfs({ files }: RenameHost, { handle, fsid }: FilesystemVolume, device: string): Promise<void> {
  const ranges = btrfsSuperblockRanges(deviceSizeBytes(device));
  await files.rewriteExclusively("stage/rename-btrfs", device, ranges, (block, range) => {
    const problem = problemOfSuperblock(block, range.offsetBytes);
    if (problem === undefined) return withFsid(block, fsid);
    if (range !== ranges[0]) return undefined;
    throw new StorageError(
      "WrongFilesystem",
      `delete the claim, and copy the source again: the copy of ${handle} cannot be given another fsid: ${problem}`,
    );
  });
}

/** With the checksum seed stored in the superblock only the superblock changes; without it every block of metadata would. */
async function renameExt4({ tools }: RenameHost, { handle, fsid }: FilesystemVolume, device: string): Promise<void> {
  const task = `giving the copy on ${device} of ${handle} its own UUID`;
  const checked = await tools.run("stage/check-copy", "e2fsck", ["-p", device], CHECK_LIMIT_MS);
  if (checked.exitCode !== 1) expectSuccess(checked, task); // 1: what there was is corrected
  if (hasExt4Checksums(device))
    expectSuccess(await tools.run("stage/keep-checksums", "tune2fs", ["-O", "metadata_csum_seed", device]), task);
  expectSuccess(await tools.run("stage/rename-ext4", "tune2fs", ["-U", fsid, device]), task);
}

/** A copy of a mounted xfs always has a log to be replayed, and its own UUID in it: only the kernel can do that. */
async function renameXfs(
  { tools, recordDirectory }: RenameHost,
  volume: FilesystemVolume,
  device: string,
): Promise<void> {
  const task = `giving the copy on ${device} of ${volume.handle} its own UUID`;
  const rename = async (): Promise<string> => {
    const args = ["-x", "-c", `uuid ${volume.fsid}`, device];
    const renamed = await tools.run("stage/rename-xfs", "xfs_db", args, CHECK_LIMIT_MS);
    return `${expectSuccess(renamed, task)}${renamed.stderr}`; // xfs_db does not exit with an error on a refusal
  };
  if (!/log which needs to\s+be replayed/.test(await rename())) return;
  // In a mount namespace that ends with the command: no other process sees the mount, and no crash leaves it mounted.
  const mount = ["mount", "-t", "xfs", "-o", "nouuid,noatime", device, recordDirectory];
  const args = ["--mount", "--propagation", "slave", ...mount];
  expectSuccess(await tools.run("stage/replay-xfs", "unshare", args, CHECK_LIMIT_MS), task);
  await waitForExclusive(volume, device);
  await rename();
}

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
  if (block.toString("latin1", MAGIC_OFFSET, MAGIC_OFFSET + MAGIC.length) !== MAGIC)
    return "it is not a btrfs superblock";
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

/**
 * A superblock without a problem, with this fsid. The same again is the same. The blocks keep the fsid that they were written with, which
 * from then on is the metadata UUID (feature metadata_uuid, kernel 5.0). btrfstune does the same through a commit of its own, after which
 * the kernel cannot replay the log of what was fsynced last: a copy of a mounted filesystem would be lost. Pure.
 */
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
