// From nothing, or from wherever a crash left it, to a mounted filesystem (member, device, at most one mkfs, mount), and back. Each step
// looks at the world first, so that a second call continues or changes nothing. A volume is released only when the kernel holds nothing of
// it in any mount namespace: a lazy unmount would say so too early, and a second node could write to the member.

import { existsSync } from "node:fs";
import { basename } from "node:path";
import { waitUntil } from "../../../platform/process/async/pause.ts";
import type { Logger } from "../../../platform/process/log.ts";
import { stopExclusiveOperation } from "../btrfs/exclusive-operation.ts";
import { assertNoLink, isMountOf, mountAt, mountedAnywhere, mountsOfDevice } from "../filesystem/devices-and-mounts.ts";
import type { FilesystemVolume, Mounted, RawVolume, VolumeIdentity } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { expectSuccess, type Finished } from "../tools.ts";
import type { BlockHost, MemberAttachment, MemberNames, MemberRemoval, OneMemberVolume } from "./block-member.ts";
import { decideFormat, type FormatSubject, recordOfAnother } from "./decide-format.ts";
import { type MemberRecord, memberRecordPath, memberRecordText, readMemberRecord } from "./member-record.ts";
import { probe, waitForExclusive } from "./probe-device.ts";
import { assertWritable, requireMember } from "./resize-member.ts";
import { takeCopy } from "./take-copy.ts";

export const FORMAT_LIMIT_MS = 120_000;
export const MOUNT_LIMIT_MS = 120_000; // Log replay after a power cut included.

export async function stage<V extends OneMemberVolume>(
  host: BlockHost<V>,
  volume: V,
  sizeBytes: number,
  mountPath: string,
): Promise<Mounted<V>> {
  const mounted = await findOwn(host, volume, mountPath);
  if (mounted !== undefined) {
    assertWritable(mounted);
    requireMember(host, mounted);
    return mounted;
  }
  await host.members.make(volume, sizeBytes);
  const device = await host.members.attach(volume);
  await waitForExclusive(volume, device);
  await takeCopy(host, volume, device);
  await formatOnce(host, volume, device);
  return mountFilesystem(host, volume, device, mountPath);
}

/** The same, where its member's record names no other volume: a layout that was edited by hand may name another's member. */
export async function findOwn<V extends OneMemberVolume>(
  host: BlockHost<V>,
  volume: V,
  mountPath: string,
): Promise<Mounted<V> | undefined> {
  const mounted = await findMounted(host, volume, mountPath);
  const stranger = mounted && recordOfAnother(subjectOf(host, volume), readableRecord(host, volume));
  if (stranger !== undefined) throw new StorageError(stranger.code, stranger.message);
  return mounted;
}

// One that cannot be read forbids a mkfs; of what is mounted already it says nothing.
function readableRecord<V extends OneMemberVolume>(host: BlockHost<V>, volume: V): MemberRecord | undefined {
  try {
    return readMemberRecord(host.recordDirectory, host.members.recordName(volume));
  } catch {
    return undefined;
  }
}

/** The volume when it is what is mounted at mountPath; throws WrongFilesystem when something else is. */
async function findMounted<V extends OneMemberVolume>(
  { members }: BlockHost<V>,
  volume: V,
  mountPath: string,
): Promise<Mounted<V> | undefined> {
  const mount = mountAt(mountPath);
  if (mount === undefined) return undefined;
  const device = (await members.devices(volume)).find((candidate) => isMountOf(mount, candidate));
  if (device === undefined)
    throw new StorageError(
      "WrongFilesystem",
      `unmount ${mountPath} by hand: it has ${mount.fsType} from ${mount.source} mounted, not member ${members.nameOf(volume)}`,
    );
  return { ...volume, device, mountPath };
}

async function formatOnce<V extends OneMemberVolume>(host: BlockHost<V>, volume: V, device: string): Promise<void> {
  const { members, recordDirectory } = host;
  const record = readMemberRecord(recordDirectory, members.recordName(volume));
  const signatures = await probe(host.tools, volume, device);
  const unknownData = await members.unknownData(volume);
  const decision = decideFormat(subjectOf(host, volume), { record, signatures, unknownData });
  if (decision.kind === "refuse") throw new StorageError(decision.code, decision.message);
  const recordPath = memberRecordPath(recordDirectory, members.recordName(volume));
  if (decision.kind === "format") {
    await host.files.writeWhole("stage/record-formatting", recordPath, memberRecordText(volume, "formatting"));
    await members.noteFormatting(volume);
    await assertStillBare(host, volume, device);
    const made = await host.tools.run(
      "stage/format",
      `mkfs.${volume.fsType}`,
      formatArgs(volume, device),
      FORMAT_LIMIT_MS,
    );
    expectSuccess(made, `formatting ${device} of ${volume.handle}`);
  }
  if (decision.kind === "format" || record?.state === "formatting")
    await host.files.writeWhole("stage/record-formatted", recordPath, memberRecordText(volume, "formatted"));
  if (record?.state !== "mounted")
    await host.files.writeWhole("stage/record-mounted", recordPath, memberRecordText(volume, "mounted"));
}

/** mkfs.btrfs and mkfs.xfs check again by themselves; mkfs.ext4 only asks, and goes on where no user can answer. */
async function assertStillBare<V extends OneMemberVolume>(
  host: BlockHost<V>,
  volume: V,
  device: string,
): Promise<void> {
  if (volume.fsType !== "ext4") return;
  const [signature] = await probe(host.tools, volume, device);
  if (signature === undefined) return;
  const what = `${signature.type} signature (UUID ${signature.uuid || "none"})`;
  throw new StorageError(
    "SignatureFound",
    `member ${host.members.nameOf(volume)} has got a ${what} since it was found bare; it is left as it is`,
  );
}

function subjectOf<V extends OneMemberVolume>({ members }: BlockHost<V>, volume: V): FormatSubject {
  return { ...volume, member: members.nameOf(volume), remedy: members.remedy };
}

// Never with a flag that overrides a signature: should one have appeared after the probe, mkfs must fail too.
export function formatArgs(volume: FilesystemVolume, device: string): string[] {
  switch (volume.fsType) {
    case "btrfs":
      return ["-q", "-U", volume.fsid, device]; // Metadata stays DUP: other profiles have far higher floors for a shrink.
    case "ext4":
      return ["-q", "-m", "0", "-U", volume.fsid, device]; // No share is reserved for root: that is for system disks.
    case "xfs":
      return ["-q", "-m", `uuid=${volume.fsid}`, device];
  }
}

async function mountFilesystem<V extends OneMemberVolume>(
  host: BlockHost<V>,
  volume: V,
  device: string,
  mountPath: string,
): Promise<Mounted<V>> {
  assertNoLink(mountPath);
  await host.files.makeDirectory("stage/make-mount-point", mountPath);
  const args = ["-t", volume.fsType, "-o", "noatime", device, mountPath];
  const mounted = await host.tools.run("stage/mount", "mount", args, MOUNT_LIMIT_MS);
  expectSuccess(mounted, `mounting ${volume.fsType} ${volume.fsid} of ${volume.handle} from ${device} at ${mountPath}`);
  if (
    mountedAnywhere(device, volume.fsid)?.endsWith(volume.fsType === "btrfs" ? volume.fsid : basename(device)) === true
  )
    return { ...volume, device, mountPath };
  await host.tools.run("stage/unmount-stranger", "umount", [mountPath]);
  throw new StorageError(
    "WrongFilesystem",
    `detach the copy of ${device} on this node: mounting it brought up another device with fsid ${volume.fsid}`,
  );
}

const UNMOUNT_LIMIT_MS = 120_000; // It writes out what is dirty.
// A child of a dead agent, or a command whose work is done, may still have the mount open.
const BUSY_LIMIT_MS = 3_000;
const RELEASE_LIMIT_MS = 10_000;
const INTERVAL_MS = 20;

export async function unstage<V extends OneMemberVolume>(
  host: BlockHost<V>,
  volume: V,
  mountPath: string,
): Promise<void> {
  const mounted = await findMounted(host, volume, mountPath);
  if (mounted !== undefined) {
    // Its pods are gone, and what runs on would keep it mounted.
    await stopExclusiveOperation(host.tools, mounted, (others) => warnOfCancel(host.log, mounted, others));
    await unmount(volume, mountPath, (args, limitMs) => host.tools.run("unstage/unmount", "umount", args, limitMs));
  }
  for (const device of await host.members.devices(volume)) await detach(host, volume, device);
}

export function warnOfCancel(log: Logger, { handle }: VolumeIdentity, others: string): void {
  log.warn({ volume: handle, others }, "cancelling the work of another program on a filesystem that is unmounted");
}

/** Deletes the member, then its record: a crash in between leaves a record that forbids a new mkfs, and a second call ends it. */
export async function removeMember<V extends OneMemberVolume>(host: BlockHost<V>, volume: V): Promise<void> {
  const { members } = host;
  await assertOwn(host, volume);
  if ((await members.sizeBytes(volume)) !== undefined) {
    const devices = await members.devices(volume);
    const held = devices.find((device) => mountedAnywhere(device) !== undefined);
    if (held !== undefined)
      throw new StorageError("DeviceBusy", `${volume.handle} is mounted from ${held}; unmount it before it is removed`);
    for (const device of devices) await detach(host, volume, device);
    await members.remove(volume);
  }
  const recordPath = memberRecordPath(host.recordDirectory, members.recordName(volume));
  if (existsSync(recordPath)) await host.files.remove("remove/record", recordPath);
}

/** A layout that was edited by hand may name another volume's member. What says whose it is, is on the disk. */
export async function assertOwn<V extends OneMemberVolume | RawVolume>(
  {
    members,
    recordDirectory,
  }: { readonly members: MemberNames<V> & MemberRemoval<V>; readonly recordDirectory: string },
  volume: V,
): Promise<void> {
  const record = readMemberRecord(recordDirectory, members.recordName(volume));
  const isOwn = record === undefined ? await members.looksOwn(volume) : record.volumeUID === volume.volumeUID;
  if (isOwn) return;
  throw new StorageError(
    "WrongFilesystem",
    `correct the layout's source, or delete member ${members.nameOf(volume)} by hand: ${record === undefined ? "no record names it" : `it is recorded as volume ${record.volumeUID}'s`}`,
  );
}

/** Plainly; throws DeviceBusy while a process uses it. */
export async function unmount(
  volume: VolumeIdentity,
  mountPath: string,
  start: (args: readonly string[], timeLimitMs: number) => Promise<Finished>,
): Promise<void> {
  let said = "";
  const unmounted = await waitUntil(
    async () => {
      const finished = await start([mountPath], UNMOUNT_LIMIT_MS);
      said = finished.stderr.trim();
      return finished.exitCode === 0;
    },
    BUSY_LIMIT_MS,
    INTERVAL_MS,
  );
  if (unmounted) return;
  throw new StorageError(
    "DeviceBusy",
    `end what uses ${mountPath} (fuser -vm): ${volume.handle} cannot be unmounted: ${said}`,
  );
}

async function detach<V extends OneMemberVolume>(
  host: BlockHost<V, MemberAttachment<V>>,
  volume: V,
  device: string,
): Promise<void> {
  if (!(await waitUntil(() => mountedAnywhere(device) === undefined, RELEASE_LIMIT_MS, INTERVAL_MS)))
    throw new StorageError(
      "DeviceBusy",
      `${device} of ${volume.handle} is still mounted${placesOf(device)}; unmount it`,
    );
  // btrfs remembers scanned devices; the next device of this name must not meet the memory of this one.
  if (volume.fsType === "btrfs")
    await host.tools.run("unstage/forget", "btrfs", ["device", "scan", "--forget", device]);
  await host.members.detach(volume, device);
}

function placesOf(device: string): string {
  const places = mountsOfDevice(device).map(({ mountPath }) => mountPath);
  return places.length > 0 ? ` at ${places.join(", ")}` : " in another mount namespace";
}
