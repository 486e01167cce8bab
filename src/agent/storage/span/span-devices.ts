// Which members of a span have a device on this node, which of those are in its mounted filesystem, as the kernel shows it in sysfs, and
// how the others are brought here by their drivers. What is at a member's path from before, a reboot perhaps, is never taken for its
// device.

import type { SpanMember } from "../../member-drivers/span-member.ts";
import { probe, waitForExclusive } from "../block/probe-device.ts";
import {
  type BlockDevice,
  deviceNameOf,
  mountAt,
  mountedAnywhere,
  mountedDeviceNames,
} from "../filesystem/devices-and-mounts.ts";
import type { MountedSpan, SpanVolume } from "../storage.ts";
import { StorageError, unlessStopped } from "../storage-error.ts";
import { type MemberDevice, readSpanRecord, removalOf, type SpanHost } from "./span-host.ts";

/**
 * The members whose devices are published on this node. Throws MembersMissing where the disk of one has vanished that the filesystem may be made
 * of; of another one nothing is here then.
 */
function publishedMembers(
  host: Pick<SpanHost, "devices">,
  volume: Pick<MountedSpan, "handle" | "members" | "fsid">,
): MemberDevice[] {
  return volume.members.flatMap((member) => {
    const device = publishedDevice(host, volume, member);
    return device === undefined ? [] : [{ member, device }];
  });
}

/** As publishedMembers, of one. */
export function publishedDevice(
  host: Pick<SpanHost, "devices">,
  volume: Pick<MountedSpan, "handle" | "members" | "fsid">,
  member: SpanMember,
): BlockDevice | undefined {
  const { devices } = host;
  if (devices.hasVanished(volume.handle, member.name) && !mayBeInside(host, volume, member)) return undefined;
  return devices.find(volume.handle, member.name);
}

/** One that was added may not be reported yet: it counts where the kernel has a device in use that no member's path leads to. */
function mayBeInside(
  host: Pick<SpanHost, "devices">,
  volume: Pick<MountedSpan, "handle" | "members" | "fsid">,
  { wasInside, reported }: SpanMember,
): boolean {
  if (wasInside || reported !== undefined) return true;
  const here = new Set(reachableMembers(host, volume).map(({ device }) => device.name));
  return mountedDeviceNames(volume.fsid).some((name) => !here.has(name));
}

/** The same without those whose disks have vanished: for finding or releasing the filesystem, not for changing its size. */
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
 * What an agent of an earlier version has published, and the kernel has in the filesystem: from now on its path says of which boot it is. Where
 * two paths lead to one device, one of them is from before a reboot.
 */
export async function noteDisks(host: Pick<SpanHost, "devices">, volume: MountedSpan): Promise<void> {
  const here = reachableMembers(host, volume);
  for (const { member, device } of membersInside(host, volume, here))
    if (here.filter((other) => other.device.name === device.name).length === 1)
      await host.devices.note(volume.handle, member.name);
}

/**
 * Throws WrongFilesystem when the mounted filesystem has a device that does not belong to its members. What was added by hand is neither
 * used nor taken out. While it is there the size that the filesystem should have is unknown.
 */
export function assertOnlyMembers(host: Pick<SpanHost, "devices">, volume: MountedSpan): void {
  const strange = strangeDeviceNames(host, volume);
  if (strange.length === 0) return;
  throw new StorageError(
    "WrongFilesystem",
    `remove what was added by hand (btrfs device remove): the filesystem has ${strange.join(", ")}, which are not members; its size stays`,
  );
}

/** What the mounted filesystem is made of in addition to its members, by the kernel's names. */
export function strangeDeviceNames(host: Pick<SpanHost, "devices">, volume: MountedSpan): string[] {
  const own = new Set(publishedMembers(host, volume).map(({ device }) => device.name));
  return mountedDeviceNames(volume.fsid).filter((name) => !own.has(name));
}

/** Throws WrongFilesystem when the kernel has a device in the filesystem that does not belong to its members, or the reverse. */
export function assertSameDevices({ fsid }: MountedSpan, expected: readonly MemberDevice[]): void {
  const names = mountedDeviceNames(fsid).sort();
  const wanted = expected.map(({ device }) => device.name).sort();
  if (names.join() === wanted.join()) return;
  throw new StorageError(
    "WrongFilesystem",
    `detach the copy of a member from this node: the btrfs came up on ${names.join(", ") || "no device"}, not ${wanted.join(", ")}; or a member was taken out before`,
  );
}

/**
 * By what the kernel shows: no device is asked. The volume when it is mounted at mountPath from its members; throws WrongFilesystem when
 * something else is.
 */
export function findOwnSpan(
  host: Pick<SpanHost, "devices">,
  volume: SpanVolume,
  mountPath: string,
): MountedSpan | undefined {
  const found = findMountedSpan(host, volume, mountPath);
  if (found === undefined || membersInside(host, volume, reachableMembers(host, volume)).length > 0) return found;
  const names = mountedDeviceNames(volume.fsid).join(", ") || "no device";
  throw new StorageError(
    "WrongFilesystem",
    `unmount ${mountPath} and detach the copy on this node: its btrfs is mounted from ${names}, which are not members`,
  );
}

/**
 * The same, or what came up in its place and was not compared yet: a copy of a member, or a member next to a copy, which the kernel mounts
 * under another fsid.
 */
export function findMountedSpan(
  host: Pick<SpanHost, "devices">,
  volume: SpanVolume,
  mountPath: string,
): MountedSpan | undefined {
  const mount = mountAt(mountPath);
  if (mount === undefined) return undefined;
  const devices = reachableMembers(host, volume).map(({ device }) => device);
  const source = deviceNameOf(mount.source);
  if (mountedAnywhere(source)?.endsWith(volume.fsid) !== true && !devices.some(({ name }) => name === source))
    throw new StorageError(
      "WrongFilesystem",
      `unmount ${mountPath} by hand: it has ${mount.fsType} from ${mount.source} mounted, not btrfs ${volume.fsid}`,
    );
  return { ...volume, device: devices[0]?.path ?? mount.source, mountPath };
}

/**
 * Members that shall leave and are out of the filesystem, but not released yet. A removal that was started here goes on once its member is
 * out, whatever the layout says by then: the filesystem no longer has data on it.
 */
export function unreleasedMembers(host: SpanHost, volume: MountedSpan): SpanMember[] {
  const record = readSpanRecord(host, volume);
  const inside = new Set(mountedDeviceNames(volume.fsid));
  return volume.members.filter((member) => {
    const removal = removalOf(record, member);
    if ((member.wanted !== "Removed" && removal === undefined) || removal?.state === "released") return false;
    const device = publishedDevice(host, volume, member);
    return device === undefined || !inside.has(device.name);
  });
}

export interface MemberFailure {
  /** Of the member. */
  readonly name: string;
  readonly reason: unknown;
}

/** Drivers are asked for so many members at a time; a span has fewer. */
const CONCURRENCY = 8;

/**
 * Publishes all at once, in the order of `members`: a stage waits for the slowest driver, not for their sum. When it throws, no call for
 * any of them is under way, and what has been published stays so.
 */
export async function publishAll(
  host: SpanHost,
  volume: SpanVolume,
  members: readonly SpanMember[],
): Promise<MemberDevice[]> {
  // First all of them: what an old path leads to by now may be the device of another one.
  await forAll(members, (member) => giveBackLeft(host, volume, member));
  return forAll(members, async (member) => ({ member, device: await publish(host, volume, member) }));
}

/**
 * Of a member that is in no mounted filesystem. What an earlier stage or extend has left of it is given back first. The signal ends only a
 * wait for its driver.
 */
export async function publishAnew(
  host: SpanHost,
  volume: SpanVolume,
  member: SpanMember,
  signal?: AbortSignal,
): Promise<BlockDevice> {
  await giveBackLeft(host, volume, member, signal);
  return publish(host, volume, member, signal);
}

async function publish(
  host: SpanHost,
  volume: SpanVolume,
  member: SpanMember,
  signal?: AbortSignal,
): Promise<BlockDevice> {
  const device = await unlessStopped(host.devices.publish(volume.handle, member, signal), signal);
  await waitForExclusive(volume, device.path);
  return device;
}

/** Throws what has failed, by member, once all have ended. */
async function forAll<T>(members: readonly SpanMember[], work: (member: SpanMember) => Promise<T>): Promise<T[]> {
  const ended: PromiseSettledResult<T>[] = [];
  const waiting = [...members.entries()];
  const takeNext = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [index, member] = next;
      [ended[index]] = await Promise.allSettled([work(member)]);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, takeNext));
  const failures = members.flatMap(({ name }, index) => {
    const outcome = ended[index];
    return outcome?.status === "rejected" ? [{ name, reason: outcome.reason as unknown }] : [];
  });
  if (failures.length > 0) throw failureOf(failures);
  return ended.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
}

/** What is thrown of several: what does not mend by itself goes first, and all are named. */
export function failureOf(failures: readonly MemberFailure[]): unknown {
  const errors: StorageError[] = [];
  for (const { reason } of failures)
    if (reason instanceof StorageError) errors.push(reason);
    else return reason;
  const worst = errors.find(({ code }) => code !== "WaitingForMember") ?? errors[0];
  const said = failures.map(({ name }, index) => `member ${name}: ${errors[index]?.said}`);
  return new StorageError(worst?.code ?? "CommandFailed", said.join("; "), worst);
}

async function giveBackLeft(
  host: SpanHost,
  volume: SpanVolume,
  member: SpanMember,
  signal?: AbortSignal,
): Promise<void> {
  const here = reachableMembers(host, volume);
  const left = here.find((each) => each.member.name === member.name);
  const mounted = mountedDeviceNames(volume.fsid);
  const others = new Set(here.filter((each) => each !== left).map(({ device }) => device.name));
  // Mounted, here or elsewhere on this node: no device is taken away that the filesystem may be made of. The wait for its device reports
  // what holds it. A disk that has vanished has no name: it may be any device that does not belong to another member.
  if (left === undefined ? mounted.some((name) => !others.has(name)) : mounted.includes(left.device.name)) return;
  if (left !== undefined && !(await isForeign(host, volume, left))) {
    // A dead agent's mkfs may still have it, or a person who looks at what it carries.
    await waitForExclusive(volume, left.device.path);
    await host.tools.run("span/forget-device", "btrfs", ["device", "scan", "--forget", left.device.path]);
  }
  await unlessStopped(host.devices.unpublish(volume.handle, member, signal), signal);
}

/**
 * By now the path may lead to another disk, or to one that does not answer: that one is left alone. A disk that the member's driver has brought
 * is the member's, whatever it carries.
 */
async function isForeign(
  { tools, devices }: SpanHost,
  volume: SpanVolume,
  { member, device }: MemberDevice,
): Promise<boolean> {
  try {
    const signatures = await probe(tools, volume, device.path);
    return !devices.isAsBrought(volume.handle, member.name) && signatures.some(({ uuid }) => uuid !== volume.fsid);
  } catch {
    return true;
  }
}
