// Devices of members that are outside of a mounted span, brought here to be used, as a spare perhaps: no other process holds them, and they
// carry nothing. One that carries anything may hold a user's data, or be a member that a power cut has half added: it is left as it is,
// never wiped or formatted, and the layout's status reports the finding.

import { printable } from "../../../contracts/printable.ts";
import { isAttached, type SpanMember } from "../../member-drivers/span-member.ts";
import { probe, type Signature, waitForExclusive } from "../block/probe-device.ts";
import { type BlockDevice, isSameDevice, mountedDeviceNames } from "../filesystem/devices-and-mounts.ts";
import type { MountedSpan, SpanVolume } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { identityWithin } from "./device-identity.ts";
import { membersInside, publishAnew, publishedDevice, reachableMembers } from "./span-devices.ts";
import { memberKey, type RefusedDevice, type SpanHost } from "./span-host.ts";

/** Throws SignatureFound. */
async function assertBlank(
  host: SpanHost,
  volume: MountedSpan,
  member: SpanMember,
  device: BlockDevice,
): Promise<void> {
  const why = await findRefusal(host, volume, member, device);
  if (why !== undefined) throw refusedFor(member, why);
}

/**
 * The same where it is, of one that was refused before; nothing where it is not here. Who looks at what it carries has it for as long,
 * also after another agent has begun. What only another agent has seen says which disk that was: the path may lead to another one since.
 */
async function assertNotStillRefused(host: SpanHost, volume: MountedSpan, member: SpanMember): Promise<void> {
  if (!wasRefused(host, volume, member)) return;
  const isOfThisAgent = refusalOf(host, volume, member) !== undefined;
  const [shown] = reachableMembers(host, { ...volume, members: [member] });
  const why = shown && (await findRefusal(host, volume, member, shown.device));
  if (why === undefined) return;
  if (isOfThisAgent || printable(why) === member.carried) throw refusedFor(member, why);
  host.refused.delete(memberKey(volume, member));
}

function refusedFor({ name }: SpanMember, why: string): StorageError {
  return new StorageError(
    "SignatureFound",
    `member ${name} is not used: ${why}. If its data is not needed, wipe the device on this node, or set the member's state to Removed in its layout`,
  );
}

/** Why the device is not used, or undefined: checked now, and remembered. `isOwn` names the signatures that do not count. */
export async function findRefusal(
  host: SpanHost,
  volume: SpanVolume,
  member: SpanMember,
  device: BlockDevice,
  isOwn: (signature: Signature) => boolean = () => false,
): Promise<string | undefined> {
  const found = (await probe(host.tools, volume, device.path)).find((signature) => !isOwn(signature));
  if (found === undefined) {
    host.refused.delete(memberKey(volume, member));
    return undefined;
  }
  // Whatever it was ready for, it is no longer a spare.
  host.spares.delete(memberKey(volume, member));
  const isOfThis = (await identityWithin(host.tools, volume.fsid, device)) !== undefined;
  const why =
    `its device ${device.path} carries a ${found.type} signature (UUID ${found.uuid || "none"})` +
    (isOfThis ? "; it carries this filesystem's own UUID: it was taken out of it before, or half added" : "");
  noteRefusal(host, volume, member, why);
  return why;
}

export function noteRefusal(
  { refused, clock }: SpanHost,
  volume: Pick<MountedSpan, "handle">,
  member: SpanMember,
  why: string,
): void {
  refused.set(memberKey(volume, member), { why, lookedMs: clock.monotonicMs() });
}

export function isRefusal(error: unknown): error is StorageError {
  return error instanceof StorageError && error.code === "SignatureFound";
}

/** Of a member that no record of a removal speaks of: whether it is left where it is, although its layout asks it to go. */
export function isHeldBack(host: SpanHost, volume: Pick<MountedSpan, "handle">, member: SpanMember): boolean {
  return member.refused !== true && refusalOf(host, volume, member) !== undefined;
}

/** What was not used before is tried last: its driver may be slow. */
export function refusedLast<Member extends SpanMember>(
  host: SpanHost,
  volume: Pick<MountedSpan, "handle">,
  members: readonly Member[],
): Member[] {
  const isRefused = (member: SpanMember): boolean => wasRefused(host, volume, member);
  return [...members].sort((one, other) => Number(isRefused(one)) - Number(isRefused(other)));
}

/** At the last check, by this agent or another. */
function wasRefused(host: SpanHost, volume: Pick<MountedSpan, "handle">, member: SpanMember): boolean {
  return refusalOf(host, volume, member) !== undefined || member.carried !== undefined;
}

/** What this agent's last check found against the device; undefined: nothing. */
export function refusalOf(
  { refused }: SpanHost,
  volume: Pick<MountedSpan, "handle">,
  member: SpanMember,
): RefusedDevice | undefined {
  return refused.get(memberKey(volume, member));
}

/**
 * Once the signal aborts, no driver of a spare is waited for. A spare whose device carries something is left out, and reported as such
 * (find-members.ts). Any other failure is thrown once the other spares have had their turn.
 */
export async function prepareSpares(host: SpanHost, volume: MountedSpan, signal: AbortSignal): Promise<void> {
  const inside = new Set(membersInside(host, volume).map(({ member }) => member.name));
  const beside = volume.members.filter(
    (member) =>
      member.wanted === "Spare" &&
      isAttached(member) &&
      !inside.has(member.name) &&
      preparedDevice(host, volume, member) === undefined,
  );
  const failures: unknown[] = [];
  for (const member of refusedLast(host, volume, beside)) {
    if (signal.aborted)
      throw new StorageError(
        "WaitingForMember",
        `spare member ${member.name} of ${volume.handle} is brought here once what goes first is done`,
      );
    try {
      host.spares.set(memberKey(volume, member), await bringBlank(host, volume, member, signal));
    } catch (error) {
      if (!isRefusal(error)) failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

/** What this process has had published for the member, if it is still there: by name and disk. */
export function preparedDevice(host: SpanHost, volume: MountedSpan, member: SpanMember): BlockDevice | undefined {
  const prepared = host.spares.get(memberKey(volume, member));
  if (prepared === undefined) return undefined;
  const present = publishedDevice(host, volume, member);
  return present !== undefined && isSameDevice(present, prepared) ? present : undefined;
}

export function forgetSpare(host: SpanHost, volume: Pick<MountedSpan, "handle">, member: SpanMember): void {
  host.spares.delete(memberKey(volume, member));
  host.refused.delete(memberKey(volume, member));
}

/**
 * Brings it to this node to be used. The node may have opened it by itself for what it carries (LVM, MD, multipath). Then the content is
 * why it is not used, not that it is busy. Throws SignatureFound where it carries something, also where another process holds it. The
 * signal ends only a wait for its driver.
 */
export async function bringBlank(
  host: SpanHost,
  volume: MountedSpan,
  member: SpanMember,
  signal: AbortSignal | undefined,
): Promise<BlockDevice> {
  await assertNotStillRefused(host, volume, member);
  const device = await unlessRefused(host, volume, member, () => publishAnew(host, volume, member, signal));
  await assertBlank(host, volume, member, device);
  return device;
}

/** The same of a device that was brought before. */
export async function assertStillBlank(
  host: SpanHost,
  volume: MountedSpan,
  member: SpanMember,
  device: BlockDevice,
): Promise<void> {
  await unlessRefused(host, volume, member, () => waitForExclusive(volume, device.path));
  await assertBlank(host, volume, member, device);
}

async function unlessRefused<T>(
  host: SpanHost,
  volume: MountedSpan,
  member: SpanMember,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof StorageError) || error.code !== "DeviceBusy") throw error;
    const [held] = reachableMembers(host, { ...volume, members: [member] });
    // A dead agent's command may have added it to the filesystem since.
    const isInside = held !== undefined && mountedDeviceNames(volume.fsid).includes(held.device.name);
    if (held !== undefined && !isInside) await assertBlank(host, volume, member, held.device);
    throw error;
  }
}
