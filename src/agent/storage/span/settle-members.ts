// The end of a member (R3): out of the filesystem, it is opened exclusively, found to be the very device that was recorded, wiped
// and given back to its driver. After that it is Removed for good (R4); what cannot be proven is left as it is, and so is a device that was
// never in the filesystem and carries something.
import { readdirSync, readFileSync } from "node:fs";
import { type BlockDevice, blockSizeBytes } from "../../member-drivers/block-device.ts";
import { isAttached, type SpanMember } from "../../member-drivers/span-member.ts";
import type { Signature } from "../block/format-decision.ts";
import { assertWritable } from "../block/grow.ts";
import { deviceOfBlock, superblockRanges } from "../btrfs/btrfs-superblock.ts";
import { syncFilesystem } from "../filesystem/fresh-reading.ts";
import { type MountedSpan, type SpanVolume, StorageError } from "../storage.ts";
import { findRefusal, noteRefusal, refusalOf } from "./blank-device.ts";
import { type DeviceIdentity, identityWithin } from "./device-identity.ts";
import { assertRecordedVolume, assertReportedDevice, recordedVolume } from "./known-device.ts";
import { isLeftBehind, type MountedDevices } from "./left-behind.ts";
import { forgetSpare } from "./prepare-spares.ts";
import {
  assertOnlyMembers,
  type MemberDevice,
  membersInside,
  mountedDeviceNames,
  publishedDevice,
} from "./span-devices.ts";
import type { SpanHost } from "./span-host.ts";
import { type Removal, readSpanRecord, removalOf, spanRecordPath, spanRecordText, withRemoval } from "./span-record.ts";

/**
 * Members that shall leave and are out of the filesystem, but not let go of yet. One whose removal was begun here goes on leaving
 * once it is out, whatever its layout says meanwhile: what is on it is nobody's any more.
 */
export function unsettledMembers(host: SpanHost, volume: MountedSpan): SpanMember[] {
  const record = readSpanRecord(host, volume);
  const inside = new Set(mountedDeviceNames(volume.fsid));
  return volume.members.filter((member) => {
    const removal = removalOf(record, member);
    if ((member.wanted !== "Removed" && removal === undefined) || removal?.state === "released") return false;
    const device = publishedDevice(host, volume, member);
    return device === undefined || !inside.has(device.name);
  });
}

export async function settleMembers(host: SpanHost, volume: MountedSpan): Promise<void> {
  const unsettled = unsettledMembers(host, volume);
  if (unsettled.length === 0) return;
  assertAllKnown(host, volume);
  await syncFilesystem(host.tools, volume);
  for (const member of unsettled) await settle(host, volume, member);
}

/**
 * Throws unless the filesystem is mounted, can be written to, and is made of devices of its members alone: a member whose device has
 * dropped out and come back under another name is none that was taken out, though its new name is not in the filesystem.
 */
function assertAllKnown(host: SpanHost, volume: MountedSpan): void {
  assertWritable(volume);
  assertOnlyMembers(host, volume);
  if (mountedDeviceNames(volume.fsid).length > 0) return;
  throw new StorageError(
    "WrongFilesystem",
    `the kernel shows no device of btrfs ${volume.fsid} of ${volume.handle}; none of its members is let go of`,
  );
}

async function settle(host: SpanHost, volume: MountedSpan, member: SpanMember): Promise<void> {
  const recorded = removalOf(readSpanRecord(host, volume), member);
  if (recorded !== undefined) assertRecordedVolume(volume, member, recorded);
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
 * No record says that it was ever in the filesystem: what else its device carries may be somebody's data, and its volume is deleted next. It
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
  // It cannot be looked at here: what was found last stands.
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
  assertReportedDevice(volume, each, identity);
  if (identity.valid) assertLeftBehind(volume, each, identity, await readMounted(host, volume));
  const { devid, deviceUUID } = identity;
  return { member: member.name, devid, deviceUUID, sizeBytes: blockSizeBytes(device), state: "leaving" };
}

function assertLeftBehind(
  { fsid, handle }: MountedSpan,
  { member, device }: MemberDevice,
  identity: DeviceIdentity,
  mounted: MountedDevices,
): void {
  if (isLeftBehind(identity, mounted)) return;
  const { generation, devid, deviceUUID } = identity;
  throw new StorageError(
    "WrongFilesystem",
    `member ${member.name} of ${handle} at ${device.path} says that it is device ${devid} (${deviceUUID}) of btrfs ${fsid} as of commit ` +
      `${generation}; the filesystem is at commit ${mounted.generation} with devices ${mounted.devids.join(", ")}, and that this is one ` +
      "that was taken out of it is not proven. It is neither wiped nor deleted; see whether it is a copy of another member",
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
    // Asked again while nobody else can take the device in.
    assertAllKnown(host, volume);
    const identity = deviceOfBlock(block);
    // All zero: an agent that died before it could record it has wiped it.
    return identity === undefined || (identity.fsid === fsid && identity.deviceUUID === removal.deviceUUID);
  };
  const ranges = superblockRanges(blockSizeBytes(device));
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
    `member ${member.name} of ${handle} at ${device.path} is not the device ${removal.deviceUUID} that was taken out of btrfs ${fsid}; ` +
      "it is neither wiped nor deleted",
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
