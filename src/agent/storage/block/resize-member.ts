// Makes a mounted filesystem larger, and its member as small as its btrfs has become. Member before filesystem when it grows, filesystem
// before member when it shrinks: at any crash the filesystem ends within its member. It never cuts before the superblocks on the member say
// that the filesystem has left the part to be cut.

import { readdirSync, readFileSync } from "node:fs";
import { formatBytes } from "../../../contracts/quantities/quantity.ts";
import { waitUntil } from "../../../platform/process/async/pause.ts";
import { exclusiveOperation, makeWay, makeWayAgain, metExclusive } from "../btrfs/exclusive-operation.ts";
import { deviceSizeBytes, mountAt } from "../filesystem/devices-and-mounts.ts";
import { syncFilesystem } from "../filesystem/fresh-reading.ts";
import { deviceBytesOf, hasGrownTo, type OpenMount, readOnce } from "../filesystem/mount-reader.ts";
import { readCommittedSize, readExt4Bytes } from "../filesystem/superblocks.ts";
import { coveringGrains, type Mounted, type MountedFilesystem, type Tell, wholeGrains } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { expectSuccess, type Finished } from "../tools.ts";
import type { BlockHost, MemberCuts, MemberNames, MemberSizes, OneMemberVolume } from "./block-member.ts";

const CAP_SYS_RESOURCE = 24; // capabilities(7)
const VISIBLE_INTERVAL_MS = 1;
const VISIBLE_LIMIT_MS = 30_000;

/** Gets a command that still runs when the new size is there already; the next operation must wait for it. */
export type Linger = (command: Promise<void>) => void;

/** Returns the size reached; a member already that large is only made to agree with its filesystem. */
export async function grow<V extends OneMemberVolume>(
  host: BlockHost<V, MemberNames<V> & MemberSizes<V>>,
  volume: Mounted<V>,
  sizeBytes: number,
  linger: Linger,
  tell: Tell,
): Promise<number> {
  const { members } = host;
  await members.endEarlierCut(volume);
  const present = requireMember(host, volume);
  const wanted = Math.max(present, wholeGrains(sizeBytes, members.grainBytes(volume)));
  assertWritable(volume);
  if (wanted === present && (await fillsMember(host, volume, present))) return present;
  assertMayGrow(volume);
  if (volume.fsType === "btrfs" && exclusiveOperation(volume.fsid) !== "none") await makeWay(host.tools, volume, tell);
  const task = `growing ${volume.fsType} of ${volume.handle} to ${formatBytes(wanted)}`;
  const growMember = (): Promise<void> => members.grow(volume, present, wanted);
  await growFilesystem(host, volume, { growMember, toBytes: wanted, task, linger, tell });
  return wanted;
}

/**
 * Read without a command, without the capability that growing needs, and without disturbing an operation that runs. For xfs, xfs_growfs
 * itself finds out.
 */
async function fillsMember(
  { mounts }: Pick<FilesystemHost, "mounts">,
  volume: MountedFilesystem,
  memberBytes: number,
): Promise<boolean> {
  const { fsType, device } = volume;
  if (fsType === "btrfs") return hasGrownTo(await readOnce(mounts, volume), memberBytes);
  return fsType === "ext4" && deviceSizeBytes(device) === memberBytes && readExt4Bytes(device) === memberBytes;
}

/** Its size. Throws MembersMissing where it was cut by hand. */
export function requireMember<V extends OneMemberVolume>(
  { members }: BlockHost<V, MemberNames<V> & MemberSizes<V>>,
  volume: Mounted<V>,
): number {
  const sizeBytes = members.mountedBytes(volume);
  members.assertWhole(volume);
  if (sizeBytes !== undefined) return sizeBytes;
  throw new StorageError(
    "CommandFailed",
    `member ${members.nameOf(volume)} of ${volume.handle} was deleted while it is mounted`,
  );
}

/** Throws ReadOnly when nothing can be written: the kernel has stopped the filesystem after an error, or a user has remounted it. */
export function assertWritable(volume: MountedFilesystem): void {
  const mount = mountAt(volume.mountPath);
  if (mount === undefined)
    throw new StorageError("CommandFailed", `${volume.handle} is not mounted at ${volume.mountPath}`);
  if (mount.readOnly) throw readOnlyError(volume);
}

export function readOnlyError({ fsType, handle }: MountedFilesystem): StorageError {
  return new StorageError(
    "ReadOnly",
    `Look at dmesg: after an error, unmount, check and mount the ${fsType} of ${handle}; else remount it rw. It is read-only`,
  );
}

/** The filesystem's own number of its only device; a device once replaced is no longer 1. */
export function onlyDevid(volume: MountedFilesystem): string {
  const devids = readdirSync(`/sys/fs/btrfs/${volume.fsid}/devinfo`);
  const [devid] = devids;
  if (devid === undefined || devids.length > 1)
    throw new StorageError(
      "WrongFilesystem",
      `btrfs ${volume.fsid} of ${volume.handle} has ${devids.length} devices, not 1; remove what was added by hand`,
    );
  return devid;
}

type FilesystemHost = Pick<BlockHost<OneMemberVolume>, "tools" | "log" | "mounts">;

interface Growth {
  /** Comes before the filesystem's. */
  readonly growMember: () => Promise<void>;
  readonly toBytes: number;
  readonly task: string;
  readonly linger: Linger;
  readonly tell: Tell;
}

async function growFilesystem(host: FilesystemHost, volume: MountedFilesystem, growth: Growth): Promise<void> {
  if (volume.fsType === "btrfs") return growBtrfs(host, volume, growth);
  await growth.growMember();
  switch (volume.fsType) {
    case "ext4":
      expectGrown(await host.tools.run("extend/resize-ext4", "resize2fs", [volume.device]), growth.task);
      return;
    case "xfs":
      expectGrown(await host.tools.run("extend/resize-xfs", "xfs_growfs", ["-d", volume.mountPath]), growth.task);
      return;
  }
}

// The new size is there a few milliseconds after the command started; its end, behind a commit, takes 8 to 127 ms. So the
// first of the two counts. A failure after the size was visible can only be the commit's; the mount is read-only then.
async function growBtrfs(host: FilesystemHost, volume: MountedFilesystem, growth: Growth): Promise<void> {
  // While the member grows, which takes longer.
  const opening = host.mounts.open(volume);
  opening.catch(() => undefined); // awaited below
  try {
    await growth.growMember();
  } catch (error) {
    opening.then(({ close }) => close()).catch(() => undefined);
    throw error;
  }
  const opened = await opening;
  let newest = opened.first;
  const shown = async (): Promise<boolean> => {
    newest = await opened.read();
    return hasGrownTo(newest, growth.toBytes);
  };
  try {
    for (let attempt = 1; !hasGrownTo(newest, growth.toBytes); attempt += 1) {
      const stderr = await resizeToMax(host, volume, growth, shown);
      if (hasGrownTo(newest, growth.toBytes) || !metExclusive(stderr)) break;
      await makeWayAgain(host.tools, volume, growth.tell, growth.task, attempt, stderr);
    }
    if (!hasGrownTo(newest, growth.toBytes) && !(await shown()))
      throw new StorageError(
        "CommandFailed",
        `${growth.task}: it still shows ${formatBytes(deviceBytesOf(newest))}; see dmesg on the node`,
      );
  } finally {
    opened.close();
  }
}

/** Returns the command's stderr where it met another process's operation; throws where it failed otherwise. */
async function resizeToMax(
  host: FilesystemHost,
  volume: MountedFilesystem,
  { task, linger }: Growth,
  shown: () => Promise<boolean>,
): Promise<string> {
  const args = ["filesystem", "resize", `${onlyDevid(volume)}:max`, volume.mountPath];
  let ended = false;
  const command = host.tools
    .run("extend/resize-filesystem", "btrfs", args)
    .then((finished) => {
      if (!metExclusive(finished.stderr)) expectGrown(finished, task);
      return finished.stderr;
    })
    .finally(() => {
      ended = true;
    });
  linger(command.then(() => undefined).catch((error: unknown) => host.log.warn({ err: error }, task)));
  const visible = waitUntil(async () => ended || (await shown()), VISIBLE_LIMIT_MS, VISIBLE_INTERVAL_MS).then(() => "");
  const said = await Promise.race([command, visible]);
  return ended ? command : said;
}

// Before the first side effect: a member that has grown without its filesystem would look like a finished extend.
function assertMayGrow(volume: MountedFilesystem): void {
  if (volume.fsType !== "ext4" || hasCapability(CAP_SYS_RESOURCE)) return;
  throw new StorageError(
    "NotPermitted",
    `growing ext4 of ${volume.handle} while it is mounted needs CAP_SYS_RESOURCE, which this process lacks; grant it to the agent`,
  );
}

function hasCapability(bit: number): boolean {
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? "0";
  return ((BigInt(`0x${effective}`) >> BigInt(bit)) & 1n) === 1n;
}

function expectGrown(finished: Finished, task: string): void {
  if (/permission denied|not permitted/i.test(finished.stderr))
    throw new StorageError("NotPermitted", `${task}: ${finished.stderr.trim()}; growth needs CAP_SYS_ADMIN`);
  expectSuccess(finished, task);
}

/**
 * Makes the member end where the filesystem ends; returns the size that it has then, which is what it was where the signal came first. The
 * cut cannot be undone, so the kernel's live size and every superblock on the member must agree on it first.
 */
export async function cutMember<V extends OneMemberVolume>(
  host: BlockHost<V, MemberNames<V> & MemberSizes<V> & MemberCuts<V>>,
  volume: Mounted<V>,
  devid: string,
  opened: OpenMount,
  signal: AbortSignal,
): Promise<number> {
  const { members, tools } = host;
  const presentBytes = requireMember(host, volume);
  const coveringBytes = (bytes: number): number => coveringGrains(bytes, members.grainBytes(volume));
  const endBytes = async (): Promise<number> => coveringBytes((await opened.read()).capacityBytes);
  if ((await endBytes()) === presentBytes) return presentBytes;
  /** Where the member is to end by the superblocks and by what the kernel shows after they were read; undefined where these differ. */
  const agreedEndBytes = async (): Promise<number | undefined> => {
    const committed = readCommittedSize(members.superblockPath(volume), await endBytes());
    const { capacityBytes } = await opened.read();
    const agreed =
      committed?.fsid === volume.fsid && String(committed.devid) === devid && committed.deviceBytes === capacityBytes;
    return agreed ? coveringBytes(capacityBytes) : undefined;
  };
  if ((await agreedEndBytes()) === undefined) await syncFilesystem(tools, volume);
  const toBytes = await agreedEndBytes();
  if (toBytes === undefined || toBytes > presentBytes)
    throw new StorageError(
      "CommandFailed",
      `total_bytes is not ${await endBytes()} in btrfs inspect-internal dump-super -a ${members.superblockPath(volume)}: the member is not cut`,
    );
  if (toBytes === presentBytes) return toBytes;
  const sizeBytes = await members.cut(volume, presentBytes, toBytes, signal);
  const shownBytes = await endBytes();
  if (shownBytes <= sizeBytes) return sizeBytes;
  await members.grow(volume, sizeBytes, presentBytes).catch((error: unknown) => {
    throw new StorageError(
      "CommandFailed",
      `resize btrfs of ${volume.handle} to ${sizeBytes} bytes: another process grew it to ${formatBytes(shownBytes)} while its member was cut`,
      error,
    );
  });
  throw new StorageError(
    "CommandFailed",
    `let only Tidemark resize btrfs of ${volume.handle}: another process grew it to ${formatBytes(shownBytes)}, so its member has its ${formatBytes(presentBytes)} again`,
  );
}
