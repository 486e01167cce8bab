// The first stage of a volume that was made as a copy: the filesystem on it is its source's, down to the UUID, and the source may be
// mounted beside it. It gets this volume's own UUID before it is ever mounted, and is never formatted. What says that it is still to be
// done stands on the volume itself, and is taken away last: the same again after a crash goes on, or finds it done.

import { problemOfSuperblock, withFsid } from "../btrfs/btrfs-rename.ts";
import { superblockRanges } from "../btrfs/btrfs-superblock.ts";
import { hasExt4Checksums } from "../filesystem/ext4-superblock.ts";
import { deviceSizeBytes } from "../loop/loop-device.ts";
import { type FilesystemVolume, StorageError } from "../storage.ts";
import { expectSuccess } from "../tools.ts";
import type { BlockHost, OneMemberVolume } from "./block-member.ts";
import { readMemberRecord } from "./member-record.ts";
import { probe, waitForExclusive } from "./probe-device.ts";

/** e2fsck looks at all of it where its journal is not enough; xfs replays its log. */
const CHECK_LIMIT_MS = 600_000;

type RenameHost = Pick<BlockHost<OneMemberVolume>, "tools" | "files" | "recordDirectory">;

/** Of a volume that is no copy, or whose copy is its own by now, nothing is touched. Nothing holds the device. */
export async function takeCopy<V extends OneMemberVolume>(
  host: BlockHost<V>,
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
      `${name} is a copy of a volume that had no filesystem yet, and nothing is formatted in its place. Delete the claim, and copy the ` +
        "source again once a pod has used it",
    );
  const other = signatures.find(({ type }) => type !== volume.fsType);
  if (other !== undefined)
    throw new StorageError(
      "WrongFilesystem",
      `${name} is a copy that carries ${other.type}, and the volume is to be ${volume.fsType}. Delete the claim, and copy it with a ` +
        "StorageClass of the same filesystem type",
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
  const ranges = superblockRanges(deviceSizeBytes(device));
  await files.rewriteExclusively("stage/rename-btrfs", device, ranges, (block, range) => {
    const problem = problemOfSuperblock(block, range.offsetBytes);
    if (problem === undefined) return withFsid(block, fsid);
    if (range !== ranges[0]) return undefined;
    throw new StorageError(
      "WrongFilesystem",
      `the superblock of the copy on ${device} of ${handle} cannot be given another fsid: ${problem}; it is left as it is. Delete the ` +
        "claim, and copy the source again",
    );
  });
}

/** With the seed of its checksums kept aside only the superblock changes; without it every block of metadata would. */
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
    return `${expectSuccess(renamed, task)}${renamed.stderr}`; // a refusal is no failure to it
  };
  if (!/log which needs to\s+be replayed/.test(await rename())) return;
  // In a mount namespace that ends with the command: nobody sees it, and no crash leaves it mounted.
  const mount = ["mount", "-t", "xfs", "-o", "nouuid,noatime", device, recordDirectory];
  const args = ["--mount", "--propagation", "slave", ...mount];
  expectSuccess(await tools.run("stage/replay-xfs", "unshare", args, CHECK_LIMIT_MS), task);
  await waitForExclusive(volume, device);
  await rename();
}
