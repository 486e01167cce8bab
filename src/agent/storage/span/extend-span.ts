// Makes a mounted span larger: members that have become larger are used to their end, then members that are attached and not in it
// yet are added, as many as it takes. It decides on no member: which there are is the layout's to say.

import { formatBytes } from "../../../contracts/quantities/quantity.ts";
import { waitUntil } from "../../../platform/process/async/pause.ts";
import { type AttachedMember, deliveredBytes, isAttached, type SpanMember } from "../../member-drivers/span-member.ts";
import { assertWritable } from "../block/resize-member.ts";
import { exclusiveOperation, makeWay, runMakingWay } from "../btrfs/exclusive-operation.ts";
import { type BlockDevice, blockSizeBytes, mountedDeviceNames } from "../filesystem/devices-and-mounts.ts";
import { deviceBytesOf, hasGrownTo, readOnce } from "../filesystem/mount-reader.ts";
import type { MountedSpan, Tell } from "../storage.ts";
import { StorageError, unlessStopped } from "../storage-error.ts";
import { expectSuccess, type Finished } from "../tools.ts";
import { assertStillBlank, bringBlank, isRefusal, preparedDevice, refusedLast } from "./blank-devices.ts";
import { readDeviceUsage } from "./device-identity.ts";
import { resizeDevice, restoreDevices } from "./release-members.ts";
import { assertOnlyMembers, membersInside } from "./span-devices.ts";
import { forgetIdentity, readSpanRecord, removalOf, type SpanHost } from "./span-host.ts";

/** A volume that its driver has expanded may need a while until the node shows it. */
const EXPAND_LIMIT_MS = 60_000;
const EXPAND_INTERVAL_MS = 1_000;
/** btrfs uses whole sectors. */
const SECTOR_BYTES = 4096;

interface AttachedDevice {
  readonly member: AttachedMember;
  readonly device: BlockDevice;
}

/**
 * Returns the size reached, which may be more than was asked for. When it is less, throws SignatureFound where a member's device carries
 * something, else what the first of them has failed of, and else WaitingForMember.
 */
export async function extendSpan(
  host: SpanHost,
  volume: MountedSpan,
  sizeBytes: number,
  signal: AbortSignal | undefined,
  tell: Tell,
): Promise<number> {
  assertWritable(volume);
  if (exclusiveOperation(volume.fsid) !== "none") await makeWay(host.tools, volume, tell);
  assertOnlyMembers(host, volume);
  await restoreDevices(host, volume, tell);
  // First what asks no driver: another member's may not answer while the disk fills.
  const ready = outside(host, volume).filter((member) => preparedDevice(host, volume, member) !== undefined);
  await addMembers(host, volume, ready, sizeBytes, signal, tell);
  if (ready.length === 0 || !(await hasGrown(host, volume, sizeBytes))) await growMembers(host, volume, signal, tell);
  const failures = await addMembers(host, volume, outside(host, volume), sizeBytes, signal, tell);
  const reading = await readOnce(host.mounts, volume);
  const reachedBytes = deviceBytesOf(reading);
  if (hasGrownTo(reading, sizeBytes)) return Math.max(reachedBytes, sizeBytes);
  // A refusal does not mend by itself: another member is made for it.
  if (failures.length > 0) throw failures.find(isRefusal) ?? failures[0];
  throw new StorageError(
    "WaitingForMember",
    `${volume.handle} has ${formatBytes(reachedBytes)} instead of ${formatBytes(sizeBytes)} with all members that are attached ` +
      "to this node; see the member claims in its layout",
  );
}

/** What its devices have together. */
export async function deviceBytes({ mounts }: SpanHost, volume: MountedSpan): Promise<number> {
  return deviceBytesOf(await readOnce(mounts, volume));
}

async function hasGrown({ mounts }: SpanHost, volume: MountedSpan, sizeBytes: number): Promise<boolean> {
  return hasGrownTo(await readOnce(mounts, volume), sizeBytes);
}

function outside(host: SpanHost, volume: MountedSpan): SpanMember[] {
  const inside = new Set(membersInside(host, volume).map(({ member }) => member.name));
  const record = readSpanRecord(host, volume);
  const members = volume.members
    .filter(({ name, wanted }) => wanted === "Present" && !inside.has(name))
    .filter((member) => isAttached(member) && removalOf(record, member) === undefined);
  return refusedLast(host, volume, members);
}

/**
 * Adds as many as it takes, and returns what failed at those that cannot be had: the others are added. Spares are not among them: an extend
 * that uses a spare first makes it a wanted member.
 */
async function addMembers(
  host: SpanHost,
  volume: MountedSpan,
  members: readonly SpanMember[],
  sizeBytes: number,
  signal: AbortSignal | undefined,
  tell: Tell,
): Promise<readonly unknown[]> {
  const failures: unknown[] = [];
  for (const member of members) {
    // After the abort no caller waits for a driver, so no driver is asked.
    const isStopped = failures.length > 0 && signal?.aborted === true;
    if (isStopped || (await hasGrown(host, volume, sizeBytes))) return failures;
    try {
      await addMember(host, volume, member, signal, tell);
    } catch (error) {
      failures.push(error);
    }
  }
  return failures;
}

async function addMember(
  host: SpanHost,
  volume: MountedSpan,
  member: SpanMember,
  signal: AbortSignal | undefined,
  tell: Tell,
): Promise<void> {
  const device = preparedDevice(host, volume, member) ?? (await bringBlank(host, volume, member, signal));
  await assertStillBlank(host, volume, member, device);
  // It gets a UUID by this, and perhaps the number of one that has left.
  forgetIdentity(host, volume, member);
  // Never with a flag that overrides a signature: should one have appeared after the probe, btrfs must fail too.
  const args = ["device", "add", "-K", device.path, volume.mountPath];
  const task = `adding member ${member.name} (${device.path}) to ${volume.handle}`;
  const add = (): Promise<Finished> => host.tools.run("span/add-device", "btrfs", args);
  expectSuccess(await runMakingWay(host.tools, volume, tell, task, add), task);
  if (mountedDeviceNames(volume.fsid).includes(device.name)) return;
  throw new StorageError(
    "CommandFailed",
    `see dmesg: btrfs ${volume.fsid} does not show ${device.path} of member ${member.name} after it was added`,
  );
}

/** As far as their volumes were asked to grow and have grown; a device that is larger is not used before that is said of it. */
async function growMembers(
  host: SpanHost,
  volume: MountedSpan,
  signal: AbortSignal | undefined,
  tell: Tell,
): Promise<void> {
  const usage = new Map((await readDeviceUsage(host.tools, volume)).map((each) => [each.deviceName, each]));
  for (const { member, device } of membersInside(host, volume)) {
    const used = usage.get(device.name);
    const sizeBytes = wholeSectors(deliveredBytes(member));
    if (member.wanted === "Removed" || !isAttached(member) || used === undefined || used.sizeBytes >= sizeBytes)
      continue;
    const shortfall = await expandDevice(host, volume, { member, device }, sizeBytes, signal);
    const grownBytes = shortfall === undefined ? sizeBytes : wholeSectors(shortfall.agreedBytes);
    if (grownBytes > used.sizeBytes) await resizeDevice(host, volume, used, grownBytes, tell);
    if (shortfall !== undefined) throw shortfall.error;
  }
}

/** A device that has not become as large as it was to. */
interface Shortfall {
  /** What it has with its driver's consent; 0 where the driver refuses. */
  readonly agreedBytes: number;
  readonly error: StorageError;
}

/**
 * The driver hears that the volume has grown, and has to agree, also where the device shows it already. Undefined: it has the size
 * that was asked for.
 */
async function expandDevice(
  host: SpanHost,
  volume: MountedSpan,
  { member, device }: AttachedDevice,
  sizeBytes: number,
  signal: AbortSignal | undefined,
): Promise<Shortfall | undefined> {
  let refusal: unknown;
  const askedAtMs = host.clock.monotonicMs();
  const isExpanded = async (): Promise<boolean> => {
    const expanding = host.devices.expand(volume.handle, member, sizeBytes);
    const answer = await unlessStopped(expanding, signal).catch((error: unknown) => error);
    // What the driver itself has said stands.
    if (answer === undefined || signal?.aborted !== true) refusal = answer;
    else refusal ??= answer;
    return refusal === undefined && blockSizeBytes(device) >= sizeBytes;
  };
  let expanded = false;
  await waitUntil(
    async () => {
      if (signal?.aborted === true) return true;
      expanded = await isExpanded();
      return expanded;
    },
    EXPAND_LIMIT_MS,
    EXPAND_INTERVAL_MS,
  );
  if (expanded) return undefined;
  const deviceBytes = blockSizeBytes(device);
  const said = refusal instanceof Error ? `: ${refusal.message}` : "";
  const error = new StorageError(
    "WaitingForMember",
    `member ${member.name} has ${formatBytes(deviceBytes)} instead of ${formatBytes(sizeBytes)} ${Math.round((host.clock.monotonicMs() - askedAtMs) / 1000)} s after ${member.volume.driver} was asked${said}`,
    refusal,
  );
  return { agreedBytes: refusal === undefined ? deviceBytes : 0, error };
}

function wholeSectors(bytes: number): number {
  return bytes - (bytes % SECTOR_BYTES);
}
