// Makes a mounted filesystem larger: member, then filesystem, so that the filesystem never ends behind its member at any crash.
import { readdirSync, readFileSync } from "node:fs";
import { formatBytes } from "../../../units/quantity.ts";
import { exclusiveOperation } from "../btrfs/exclusive-operation.ts";
import { makeWay, makeWayAgain } from "../btrfs/make-way.ts";
import { metExclusive } from "../btrfs/others-at-work.ts";
import { readExt4Bytes } from "../filesystem/ext4-superblock.ts";
import { mountAt } from "../filesystem/mount-table.ts";
import { deviceBytesOf, hasGrownTo, openReader } from "../filesystem/read-filesystem.ts";
import { deviceSizeBytes } from "../loop/loop-device.ts";
import { wholeGrains } from "../size-grain.ts";
import { type Mounted, type MountedFilesystem, StorageError, type Tell } from "../storage.ts";
import { expectSuccess, type Finished } from "../tools.ts";
import { waitUntil } from "../wait-until.ts";
import type { BlockHost, OneMemberVolume } from "./block-member.ts";

const CAP_SYS_RESOURCE = 24; // capabilities(7)
const VISIBLE_INTERVAL_MS = 1;
const VISIBLE_LIMIT_MS = 30_000;

/** Told of a command that still runs when the new size is there already; the next operation must wait for it. */
export type Linger = (command: Promise<void>) => void;

/** Returns the size reached; a member already that large is only made to agree with its filesystem. */
export async function grow<V extends OneMemberVolume>(
  host: BlockHost<V>,
  volume: Mounted<V>,
  sizeBytes: number,
  linger: Linger,
  tell: Tell,
): Promise<number> {
  const { members } = host;
  await members.settle(volume);
  const present = requireMember(host, volume);
  const wanted = Math.max(present, wholeGrains(sizeBytes, members.grainBytes(volume)));
  assertWritable(volume);
  if (wanted === present && fillsMember(volume, present)) return present;
  assertMayGrow(volume);
  if (volume.fsType === "btrfs" && exclusiveOperation(volume.fsid) !== "none") await makeWay(host.tools, volume, tell);
  await members.grow(volume, present, wanted);
  const task = `growing ${volume.fsType} of ${volume.handle} to ${formatBytes(wanted)}`;
  await growFilesystem(host, volume, { toBytes: wanted, task, linger, tell });
  return wanted;
}

/** Told without a command, without the capability that growing it needs, and without a word to who is at work on it. xfs says so itself. */
function fillsMember(volume: MountedFilesystem, memberBytes: number): boolean {
  const { fsType, device } = volume;
  if (fsType === "btrfs") return showsBtrfs(volume, memberBytes);
  return fsType === "ext4" && deviceSizeBytes(device) === memberBytes && readExt4Bytes(device) === memberBytes;
}

function showsBtrfs(volume: MountedFilesystem, sizeBytes: number): boolean {
  const reader = openReader(volume);
  try {
    return hasGrownTo(reader.read(), sizeBytes);
  } finally {
    reader.close();
  }
}

/** Its size. Throws MembersMissing where it was cut by hand. */
export function requireMember<V extends OneMemberVolume>({ members }: BlockHost<V>, volume: Mounted<V>): number {
  const sizeBytes = members.mountedBytes(volume);
  members.assertWhole(volume);
  if (sizeBytes !== undefined) return sizeBytes;
  throw new StorageError(
    "CommandFailed",
    `member ${members.nameOf(volume)} of ${volume.handle} was deleted while it is mounted`,
  );
}

/** Throws ReadOnly when nothing can be written: the kernel has stopped it after an error, or somebody has remounted it. */
export function assertWritable(volume: MountedFilesystem): void {
  const mount = mountAt(volume.mountPath);
  if (mount === undefined)
    throw new StorageError("CommandFailed", `${volume.handle} is not mounted at ${volume.mountPath}`);
  if (mount.readOnly) throw readOnlyError(volume);
}

export function readOnlyError({ mountPath, fsType, handle }: MountedFilesystem): StorageError {
  return new StorageError(
    "ReadOnly",
    `Look at dmesg on the node: after an error, unmount the filesystem, check it, mount it again. If it was remounted by hand: ` +
      `"mount -o remount,rw ${mountPath}". The ${fsType} of ${handle} is read-only`,
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

type FilesystemHost = Pick<BlockHost<OneMemberVolume>, "tools" | "log">;

interface Growth {
  readonly toBytes: number;
  readonly task: string;
  readonly linger: Linger;
  readonly tell: Tell;
}

async function growFilesystem(host: FilesystemHost, volume: MountedFilesystem, growth: Growth): Promise<void> {
  switch (volume.fsType) {
    case "btrfs":
      await growBtrfs(host, volume, growth);
      return;
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
  const reader = openReader(volume);
  const shown = (): boolean => hasGrownTo(reader.read(), growth.toBytes);
  try {
    for (let attempt = 1; !shown(); attempt += 1) {
      const stderr = await resizeToMax(host, volume, growth, shown);
      if (!metExclusive(stderr)) break;
      await makeWayAgain(host.tools, volume, growth.tell, growth.task, attempt, stderr);
    }
    if (!shown())
      throw new StorageError(
        "CommandFailed",
        `${growth.task}: it still shows ${formatBytes(deviceBytesOf(reader.read()))}; see dmesg on the node`,
      );
  } finally {
    reader.close();
  }
}

/** What it has said where it found somebody else's operation in its place; throws where it failed otherwise. */
async function resizeToMax(
  host: FilesystemHost,
  volume: MountedFilesystem,
  { task, linger }: Growth,
  shown: () => boolean,
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
  const visible = waitUntil(() => ended || shown(), VISIBLE_LIMIT_MS, VISIBLE_INTERVAL_MS).then(() => "");
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
