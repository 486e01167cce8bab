// Which members of a span are devices of its mounted filesystem, as the kernel shows it in sysfs. Reading only; nothing here waits
// for a device.
import { readdirSync } from "node:fs";
import type { BlockDevice } from "../../member-drivers/block-device.ts";
import type { SpanMember } from "../../member-drivers/span-member.ts";
import { type MountedSpan, StorageError } from "../storage.ts";
import type { SpanHost } from "./span-host.ts";

export interface MemberDevice {
  readonly member: SpanMember;
  readonly device: BlockDevice;
}

/** Names of the devices that the kernel has in the mounted filesystem; empty when it is mounted nowhere. */
export function mountedDeviceNames(fsid: string): string[] {
  try {
    return readdirSync(`/sys/fs/btrfs/${fsid}/devices`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

/**
 * The members whose devices are published on this node. Throws MembersMissing where the disk of one has vanished that the filesystem was made
 * of when it was looked at last; of another one nothing is here then.
 */
export function publishedMembers(
  host: Pick<SpanHost, "devices">,
  volume: Pick<MountedSpan, "handle" | "members">,
): MemberDevice[] {
  return volume.members.flatMap((member) => {
    const device = publishedDevice(host, volume, member);
    return device === undefined ? [] : [{ member, device }];
  });
}

/** As publishedMembers, of one. */
export function publishedDevice(
  { devices }: Pick<SpanHost, "devices">,
  { handle }: Pick<MountedSpan, "handle">,
  { name, wasInside, reported }: SpanMember,
): BlockDevice | undefined {
  const find = (): BlockDevice | undefined => devices.find(handle, name);
  return wasInside || reported !== undefined ? find() : reachableDevice(find);
}

/** The same without those whose disks have vanished: where the filesystem is found or let go of, not where its size changes. */
export function reachableMembers(
  { devices }: Pick<SpanHost, "devices">,
  { handle, members }: Pick<MountedSpan, "handle" | "members">,
): MemberDevice[] {
  return members.flatMap((member) => {
    const device = reachableDevice(() => devices.find(handle, member.name));
    return device === undefined ? [] : [{ member, device }];
  });
}

function reachableDevice(find: () => BlockDevice | undefined): BlockDevice | undefined {
  try {
    return find();
  } catch (error) {
    if (error instanceof StorageError && error.code === "MembersMissing") return undefined;
    throw error;
  }
}

/** The members that are in the mounted filesystem, in their order. */
export function membersInside(
  host: Pick<SpanHost, "devices">,
  volume: Pick<MountedSpan, "handle" | "members" | "fsid">,
  published = publishedMembers(host, volume),
): MemberDevice[] {
  const names = new Set(mountedDeviceNames(volume.fsid));
  return published.filter(({ device }) => names.has(device.name));
}

/**
 * Throws WrongFilesystem when the mounted filesystem has a device that is none of its members: what was added by hand is neither used
 * nor taken out, and what its size is to be is not known while it is there.
 */
export function assertOnlyMembers(host: Pick<SpanHost, "devices">, volume: MountedSpan): void {
  const strange = strangeDeviceNames(host, volume);
  if (strange.length === 0) return;
  throw new StorageError(
    "WrongFilesystem",
    `btrfs ${volume.fsid} of ${volume.handle} has ${strange.join(", ")}, which is no device of its members; its size stays as it ` +
      `is until what was added by hand is taken out by hand (btrfs device remove, ${volume.mountPath})`,
  );
}

/** What the mounted filesystem is made of beside its members, by the kernel's names. */
export function strangeDeviceNames(host: Pick<SpanHost, "devices">, volume: MountedSpan): string[] {
  const own = new Set(publishedMembers(host, volume).map(({ device }) => device.name));
  return mountedDeviceNames(volume.fsid).filter((name) => !own.has(name));
}

/** Throws WrongFilesystem when the kernel has a device in the filesystem that is none of its members, or the reverse. */
export function assertSameDevices({ handle, fsid }: MountedSpan, expected: readonly MemberDevice[]): void {
  const names = mountedDeviceNames(fsid).sort();
  const wanted = expected.map(({ device }) => device.name).sort();
  if (names.join() === wanted.join()) return;
  throw new StorageError(
    "WrongFilesystem",
    `btrfs ${fsid} of ${handle} came up on ${names.join(", ") || "no device"} instead of its members' ${wanted.join(", ")}: ` +
      "a copy of a member is attached to this node, or a member was taken out before; detach the copy",
  );
}
