// How a removal ends (R3). A member that is out of the filesystem is opened exclusively, found to be the very device that was recorded,
// wiped and given back to its driver; after that it is Removed permanently (R4). What cannot be proven is left as it is, and so is a device
// that was never in the filesystem and carries something. A removal that has left its member inside is undone (R1), and forgotten.

import { readdirSync, readFileSync } from "node:fs";
import { isAttached, type SpanMember } from "../../member-drivers/span-member.ts";
import type { Signature } from "../block/probe-device.ts";
import { assertWritable } from "../block/resize-member.ts";
import { metExclusive, runMakingWay } from "../btrfs/exclusive-operation.ts";
import { type BlockDevice, blockSizeBytes, mountedDeviceNames } from "../filesystem/devices-and-mounts.ts";
import { syncFilesystem } from "../filesystem/fresh-reading.ts";
import { btrfsDeviceOfBlock, btrfsSuperblockRanges } from "../filesystem/superblocks.ts";
import type { MountedSpan, SpanVolume, Tell } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { expectSuccess, type Finished } from "../tools.ts";
import { findRefusal, forgetSpare, noteRefusal, refusalOf } from "./blank-devices.ts";
import { type DeviceIdentity, isLeftBehind, type MountedDevices } from "./decide-mount.ts";
import { assertReportedDevice, type DeviceUsage, identityWithin, readDeviceUsage } from "./device-identity.ts";
import {
  assertOnlyMembers,
  failureOf,
  type MemberFailure,
  membersInside,
  publishedDevice,
  unreleasedMembers,
} from "./span-devices.ts";
import {
  type MemberDevice,
  type Removal,
  readSpanRecord,
  removalOf,
  type SpanHost,
  spanRecordPath,
  spanRecordText,
  withoutRemoval,
  withRemoval,
} from "./span-host.ts";

/** Throws once each has had its turn, and names all that could not be released. */
export async function releaseMembers(host: SpanHost, volume: MountedSpan, signal: AbortSignal): Promise<void> {
  assertNoneFailed(await releaseEach(host, volume, signal));
}

/**
 * Releases these members, and returns those that failed: one that fails holds up no other. Throws where the filesystem is not as it has to
 * be for any of them to go. The signal says that another operation waits: then no more drivers are asked once one has failed.
 */
export async function releaseEach(
  host: SpanHost,
  volume: MountedSpan,
  signal: AbortSignal,
  isDue: (member: SpanMember) => boolean = () => true,
): Promise<MemberFailure[]> {
  const unsettled = unreleasedMembers(host, volume).filter(isDue);
  if (unsettled.length === 0) return [];
  assertAllKnown(host, volume);
  await syncFilesystem(host.tools, volume);
  const failures: MemberFailure[] = [];
  for (const member of unsettled) {
    if (failures.length > 0 && signal.aborted) break;
    try {
      await releaseOne(host, volume, member);
    } catch (reason) {
      failures.push({ name: member.name, reason });
    }
  }
  return failures;
}

/** Throws what has failed: of one as it is, of several with their names. */
export function assertNoneFailed(failures: readonly MemberFailure[]): void {
  const [first] = failures;
  if (first !== undefined) throw failures.length === 1 ? first.reason : failureOf(failures);
}

/**
 * Throws unless the filesystem is mounted, can be written to, and is made of devices of its members alone. A member whose device dropped
 * out and came back under another name was not taken out, though its new name is not in the filesystem.
 */
function assertAllKnown(host: SpanHost, volume: MountedSpan): void {
  assertWritable(volume);
  assertOnlyMembers(host, volume);
  if (mountedDeviceNames(volume.fsid).length > 0) return;
  throw new StorageError(
    "WrongFilesystem",
    `the kernel shows no device of btrfs ${volume.fsid} of ${volume.handle}; all of its members stay attached`,
  );
}

async function releaseOne(host: SpanHost, volume: MountedSpan, member: SpanMember): Promise<void> {
  const recorded = removalOf(readSpanRecord(host, volume), member);
  const device = await deviceToLetGo(host, volume, member);
  const sizeBytes = device === undefined ? 0 : blockSizeBytes(device);
  const removal = recorded ?? (device === undefined ? undefined : await removalFound(host, volume, { member, device }));
  if (recorded === undefined && (await isToStay(host, volume, member, device, removal !== undefined))) return;
  if (device !== undefined) {
    if (removal !== undefined) await wipe(host, volume, { member, device }, removal);
    else assertAllKnown(host, volume);
    await host.tools.run("span/forget-device", "btrfs", ["device", "scan", "--forget", device.path]);
  }
  forgetSpare(host, volume, member);
  await host.devices.unpublish(volume.handle, member);
  const unknown = { member: member.name, devid: 0, deviceUUID: "", sizeBytes };
  await recordRemoval(host, volume, member, { ...(removal ?? unknown), state: "released" }, "released");
}

/** Not attached here and not in a filesystem that is never mounted without all its devices: nothing of it is here. */
async function deviceToLetGo(
  host: SpanHost,
  volume: MountedSpan,
  member: SpanMember,
): Promise<BlockDevice | undefined> {
  const device = publishedDevice(host, volume, member);
  if (device !== undefined || !isAttached(member)) return device;
  if (host.devices.hasVanished(volume.handle, member.name)) {
    // A person has said that it is not needed: its disk is not waited for.
    if (member.refused === true) return undefined;
    await host.devices.unpublish(volume.handle, member);
  }
  return host.devices.publish(volume.handle, member);
}

/**
 * No record says that it was ever in the filesystem: what else its device carries may be a user's data, and its volume is deleted next. It
 * goes only where its layout's spec names it as refused: then a person has asked it to go, and knows what it carries.
 */
async function isToStay(
  host: SpanHost,
  volume: MountedSpan,
  member: SpanMember,
  device: BlockDevice | undefined,
  isOurs: boolean,
): Promise<boolean> {
  if (member.refused === true) return false;
  if (device !== undefined) {
    const isOwn = ({ uuid }: Signature): boolean => isOurs && uuid === volume.fsid;
    return (await findRefusal(host, volume, member, device, isOwn)) !== undefined;
  }
  // It cannot be checked here: the last finding stands.
  const why = refusalOf(host, volume, member)?.why ?? member.carried;
  if (why !== undefined) noteRefusal(host, volume, member, why);
  return why !== undefined;
}

/**
 * Another node began it: what the device says of itself is its record. Undefined when it carries nothing of ours. The kernel clears the
 * magic number of what it takes out; where a power cut came before, the superblock must be one that the filesystem has gone on without.
 */
async function removalFound(host: SpanHost, volume: MountedSpan, each: MemberDevice): Promise<Removal | undefined> {
  const { member, device } = each;
  const identity = await identityWithin(host.tools, volume.fsid, device);
  if (identity === undefined) return undefined;
  assertReportedDevice(each, identity);
  if (identity.valid) assertLeftBehind(each, identity, await readMounted(host, volume));
  const { devid, deviceUUID } = identity;
  return { member: member.name, devid, deviceUUID, sizeBytes: blockSizeBytes(device), state: "leaving" };
}

function assertLeftBehind({ member, device }: MemberDevice, identity: DeviceIdentity, mounted: MountedDevices): void {
  if (isLeftBehind(identity, mounted)) return;
  const { generation } = identity;
  throw new StorageError(
    "WrongFilesystem",
    `see if ${device.path} of member ${member.name} is a copy: nothing proves that it was taken out (commit ${generation}, now ${mounted.generation})`,
  );
}

/** What the kernel has mounted, and what is on the disks of its members. */
export async function readMounted(host: SpanHost, volume: MountedSpan): Promise<MountedDevices> {
  const directory = `/sys/fs/btrfs/${volume.fsid}`;
  const devids = readdirSync(`${directory}/devinfo`);
  const identities: DeviceIdentity[] = [];
  for (const { device } of membersInside(host, volume)) {
    const identity = await identityWithin(host.tools, volume.fsid, device);
    if (identity !== undefined) identities.push(identity);
  }
  return {
    generation: Number(readFileSync(`${directory}/generation`, "utf8")),
    devids: devids.map(Number),
    isMissingOne: devids.some((devid) => readFileSync(`${directory}/devinfo/${devid}/missing`, "utf8").trim() !== "0"),
    identities,
  };
}

async function wipe(
  host: SpanHost,
  volume: MountedSpan,
  { member, device }: MemberDevice,
  removal: Removal,
): Promise<void> {
  const { fsid, handle } = volume;
  const mayBeZeroed = (block: Buffer): boolean => {
    // Asked again while no other process can take the device in.
    assertAllKnown(host, volume);
    const identity = btrfsDeviceOfBlock(block);
    // All zero: an agent that died before it could record it has wiped it.
    return identity === undefined || (identity.fsid === fsid && identity.deviceUUID === removal.deviceUUID);
  };
  const ranges = btrfsSuperblockRanges(blockSizeBytes(device));
  const outcome = await host.files
    .zeroExclusively("span/wipe", device.path, ranges, mayBeZeroed)
    .catch((error: NodeJS.ErrnoException) => {
      throw new StorageError(
        error.code === "EBUSY" ? "DeviceBusy" : "CommandFailed",
        `member ${member.name} of ${handle} at ${device.path} cannot be wiped yet: ${error.message}`,
        error,
      );
    });
  if (outcome === "Zeroed") return;
  throw new StorageError(
    "WrongFilesystem",
    `member ${member.name} at ${device.path} is not device ${removal.deviceUUID}, which was taken out; it is not changed`,
  );
}

export async function recordRemoval(
  host: SpanHost,
  volume: SpanVolume,
  member: SpanMember,
  removal: Removal,
  step: "leaving" | "released",
): Promise<void> {
  const whole = { ...removal, volume: removal.volume ?? recordedVolume(member), epoch: removal.epoch ?? volume.epoch };
  const text = spanRecordText(withRemoval(volume, readSpanRecord(host, volume), whole));
  const path = spanRecordPath(host, volume);
  if (step === "leaving") await host.files.writeWhole("span/record-leaving", path, text);
  else await host.files.writeWhole("span/record-released", path, text);
}

/** What identifies a member's volume, for the record of its removal. */
function recordedVolume({ volume, persistentVolumeUID }: SpanMember): Removal["volume"] {
  if (volume === undefined) return undefined;
  const { driver, volumeHandle } = volume;
  return { driver, volumeHandle, ...(persistentVolumeUID === undefined ? {} : { persistentVolumeUID }) };
}

/**
 * Undoes what an interrupted removal may have left: a device that the filesystem uses less of than before the removal. No device is used
 * beyond that: growing is an extend's. What becomes of that device later does not end this removal. As resizeDevice with `tell`.
 */
export async function restoreDevices(host: SpanHost, volume: MountedSpan, tell: Tell | undefined): Promise<void> {
  let record = readSpanRecord(host, volume);
  const begun = membersInside(host, volume).filter(({ member }) => removalOf(record, member) !== undefined);
  if (begun.length === 0) return;
  const usage = new Map((await readDeviceUsage(host.tools, volume)).map((each) => [each.deviceName, each]));
  for (const { member, device } of begun) {
    const removal = removalOf(record, member);
    const used = usage.get(device.name);
    if (record === undefined || removal === undefined || used === undefined) continue;
    // Given back once, and added again: of that removal nothing is left to undo.
    const isFormer = removal.state === "released";
    if (!isFormer && used.devid !== removal.devid) continue;
    if (!isFormer && used.sizeBytes < removal.sizeBytes)
      await resizeDevice(host, volume, used, removal.sizeBytes, tell);
    const text = spanRecordText(withoutRemoval(record, removal));
    await host.files.writeWhole("span/record-staying", spanRecordPath(host, volume), text);
    record = readSpanRecord(host, volume);
  }
}

/** With `tell`, another exclusive operation is cancelled, and named there; without, it is left alone: DeviceBusy. */
export async function resizeDevice(
  { tools }: SpanHost,
  volume: MountedSpan,
  { devid, deviceName }: DeviceUsage,
  sizeBytes: number,
  tell: Tell | undefined,
): Promise<void> {
  const args = ["filesystem", "resize", `${devid}:${sizeBytes}`, volume.mountPath];
  const task = `using ${sizeBytes} bytes of ${deviceName} for ${volume.handle}`;
  const resize = (): Promise<Finished> => tools.run("span/resize-device", "btrfs", args);
  const resized = tell === undefined ? await resize() : await runMakingWay(tools, volume, tell, task, resize);
  if (metExclusive(resized.stderr))
    throw new StorageError("DeviceBusy", `${task}: ${resized.stderr.trim()}; it is tried again`);
  expectSuccess(resized, task);
}
