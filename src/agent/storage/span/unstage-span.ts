// Releases a span: stops what runs on it, unmounts it plainly, makes btrfs forget its devices, gives each back to its driver. Done only
// when the kernel holds the filesystem in no mount namespace: otherwise a second node could write to the same members.
import { existsSync } from "node:fs";
import { waitUntil } from "../../../platform/process/async/pause.ts";
import { waitForExclusive } from "../block/probe-device.ts";
import { unmount, warnOfCancel } from "../block/stage.ts";
import { stopExclusiveOperation } from "../btrfs/exclusive-operation.ts";
import { type BlockDevice, mountedDeviceNames } from "../filesystem/devices-and-mounts.ts";
import type { SpanVolume } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { findRefusal, forgetSpare } from "./blank-devices.ts";
import { identityWithin } from "./device-identity.ts";
import { findMountedSpan, reachableMembers } from "./span-devices.ts";
import { type MemberDevice, type SpanHost, spanRecordPath } from "./span-host.ts";

const RELEASE_LIMIT_MS = 10_000;
const INTERVAL_MS = 20;

export async function unstageSpan(host: SpanHost, volume: SpanVolume, mountPath: string): Promise<void> {
  const mounted = findMountedSpan(host, volume, mountPath);
  if (mounted !== undefined) {
    if (mountedDeviceNames(volume.fsid).length > 0)
      await stopExclusiveOperation(host.tools, mounted, (others) => warnOfCancel(host.log, mounted, others));
    await unmount(volume, mountPath, (args, limitMs) => host.tools.run("span/unmount", "umount", args, limitMs));
  }
  await giveBackSpan(host, volume);
}

export async function giveBackSpan(host: SpanHost, volume: SpanVolume): Promise<void> {
  if (!(await waitUntil(() => mountedDeviceNames(volume.fsid).length === 0, RELEASE_LIMIT_MS, INTERVAL_MS)))
    throw new StorageError(
      "DeviceBusy",
      `unmount btrfs ${volume.fsid} in another place or another mount namespace too: it is still mounted there`,
    );
  await giveBack(host, volume);
}

/**
 * A device of the filesystem, or one that may be, holds all of it up while a process has it open. A device next to the filesystem that
 * carries something else stays for the process that has it open, and goes last. It is tried again, and its driver is asked to release it
 * only when it is free.
 */
async function giveBack(host: SpanHost, volume: SpanVolume): Promise<void> {
  const held = new Map<string, string>();
  for (const { member, device } of reachableMembers(host, volume)) {
    await host.tools.run("span/forget-device", "btrfs", ["device", "scan", "--forget", device.path]);
    const busy = await busyError(volume, device);
    if (busy === undefined) continue;
    if (await mayBeInside(host, volume, { member, device })) throw busy;
    const why = await findRefusal(host, volume, member, device);
    if (why === undefined) throw busy;
    held.set(member.name, why);
  }
  for (const member of volume.members) {
    if (held.has(member.name)) continue;
    forgetSpare(host, volume, member);
    await host.devices.unpublish(volume.handle, member);
  }
  for (const key of host.deviceUUIDs.keys()) if (key.startsWith(`${volume.handle}/`)) host.deviceUUIDs.delete(key);
  if (held.size > 0) throw stillHeld(volume, held);
}

/** No process holds a disk that does not answer, and its driver knows whether it can release it: the kernel has the filesystem nowhere. */
async function busyError(volume: SpanVolume, { path }: BlockDevice): Promise<StorageError | undefined> {
  try {
    await waitForExclusive(volume, path);
    return undefined;
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    return error.code === "MembersMissing" ? undefined : error;
  }
}

/** By what was ever reported of it, and by its own superblock: an agent that died may have added it without reporting that. */
async function mayBeInside(
  { tools }: SpanHost,
  { fsid }: SpanVolume,
  { member: { wasInside, reported }, device }: MemberDevice,
): Promise<boolean> {
  return wasInside || reported !== undefined || (await identityWithin(tools, fsid, device)) !== undefined;
}

function stillHeld({ handle }: SpanVolume, held: ReadonlyMap<string, string>): StorageError {
  const which = [...held].map(([name, why]) => `member ${name} (${why})`).join(" and ");
  return new StorageError(
    "DeviceBusy",
    `end what holds ${which} (umount, vgchange --activate n, fuser -v): ${handle} is unmounted; no other node gets it until then`,
  );
}

/** Its record, and devices that a dead agent had not given back; the volumes are other drivers', and their claims the operator's. */
export async function forgetSpan(host: SpanHost, volume: SpanVolume): Promise<void> {
  if (mountedDeviceNames(volume.fsid).length > 0)
    throw new StorageError("DeviceBusy", `btrfs ${volume.fsid} of ${volume.handle} is mounted; unmount it first`);
  await giveBack(host, volume);
  const path = spanRecordPath(host, volume);
  if (existsSync(path)) await host.files.remove("span/remove-record", path);
}
