// Makes a member as small as the btrfs on it has become. It never cuts before the superblocks on the member say that the filesystem has
// left the part to be cut.
import { formatBytes } from "../../../units/quantity.ts";
import { readCommittedSize } from "../btrfs/btrfs-superblock.ts";
import { syncFilesystem } from "../filesystem/fresh-reading.ts";
import type { Reader } from "../filesystem/read-filesystem.ts";
import { coveringGrains } from "../size-grain.ts";
import { type Mounted, StorageError } from "../storage.ts";
import type { BlockHost, OneMemberVolume } from "./block-member.ts";
import { requireMember } from "./grow.ts";

/**
 * Makes the member end where the filesystem ends; returns the size that it has then, which is what it was where the signal came first. The
 * cut cannot be undone, so the kernel's live size and every superblock on the member must agree on it first.
 */
export async function cutMember<V extends OneMemberVolume>(
  host: BlockHost<V>,
  volume: Mounted<V>,
  devid: string,
  reader: Reader,
  signal: AbortSignal,
): Promise<number> {
  const { members, tools } = host;
  const presentBytes = requireMember(host, volume);
  const endBytes = (): number => coveringGrains(reader.read().capacityBytes, members.grainBytes(volume));
  if (endBytes() === presentBytes) return presentBytes;
  const agreed = (): boolean => {
    const committed = readCommittedSize(members.superblockPath(volume), endBytes());
    return (
      committed?.fsid === volume.fsid &&
      String(committed.devid) === devid &&
      committed.deviceBytes === reader.read().capacityBytes
    );
  };
  if (!agreed()) await syncFilesystem(tools, volume);
  const toBytes = endBytes();
  if (!agreed() || toBytes > presentBytes)
    throw new StorageError(
      "CommandFailed",
      `member ${members.nameOf(volume)} of ${volume.handle} keeps its ${formatBytes(presentBytes)}: its superblocks do not confirm ` +
        `that btrfs ${volume.fsid} ends at ${toBytes} bytes; compare with total_bytes of "btrfs inspect-internal dump-super -a ` +
        `${members.superblockPath(volume)}"`,
    );
  if (toBytes === presentBytes) return toBytes;
  const sizeBytes = await members.cut(volume, presentBytes, toBytes, signal);
  if (endBytes() <= sizeBytes) return sizeBytes;
  await members.grow(volume, sizeBytes, presentBytes).catch((error: unknown) => {
    throw new StorageError(
      "CommandFailed",
      `btrfs ${volume.fsid} of ${volume.handle} ends at ${formatBytes(endBytes())}, behind its member ${members.nameOf(volume)} of ` +
        `${formatBytes(sizeBytes)}: somebody grew it while the member was cut, and the member cannot grow back. Resize it to ${sizeBytes} bytes`,
      error,
    );
  });
  throw new StorageError(
    "CommandFailed",
    `member ${members.nameOf(volume)} of ${volume.handle} has its ${formatBytes(presentBytes)} again: somebody grew btrfs ${volume.fsid} to ` +
      `${formatBytes(endBytes())} while its member was cut to ${formatBytes(sizeBytes)}; let nobody else resize it`,
  );
}
