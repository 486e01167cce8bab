// Lets go of a span: stop what runs on it, unmount plainly, make btrfs forget its devices, give each back to its driver. Done only
// when the kernel holds the filesystem in no mount namespace any more: otherwise a second node could write to the same members.
import { existsSync } from "node:fs";
import { waitForExclusive } from "../block/probe-device.ts";
import { unmount, warnOfCancel } from "../block/unstage.ts";
import { stopExclusiveOperation } from "../btrfs/stop-exclusive.ts";
import { type SpanVolume, StorageError } from "../storage.ts";
import { waitUntil } from "../wait-until.ts";
import { findMountedSpan } from "./find-span.ts";
import { forgetSpare } from "./prepare-spares.ts";
import { mountedDeviceNames, reachableMembers } from "./span-devices.ts";
import type { SpanHost } from "./span-host.ts";
import { spanRecordPath } from "./span-record.ts";

const RELEASE_LIMIT_MS = 10_000;
const INTERVAL_MS = 20;

export async function unstageSpan(host: SpanHost, volume: SpanVolume, mountPath: string): Promise<void> {
  const mounted = findMountedSpan(host, volume, mountPath);
  if (mounted !== undefined) {
    if (mountedDeviceNames(volume.fsid).length > 0)
      await stopExclusiveOperation(host.tools, mounted, (others) => warnOfCancel(host.log, mounted, others));
    await unmount(volume, mountPath, (args, limitMs) => host.tools.run("span/unmount", "umount", args, limitMs));
  }
  if (!(await waitUntil(() => mountedDeviceNames(volume.fsid).length === 0, RELEASE_LIMIT_MS, INTERVAL_MS)))
    throw new StorageError(
      "DeviceBusy",
      `btrfs ${volume.fsid} of ${volume.handle} is still mounted, in another place or another mount namespace; unmount it there`,
    );
  await giveBack(host, volume);
}

async function giveBack(host: SpanHost, volume: SpanVolume): Promise<void> {
  for (const { device } of reachableMembers(host, volume)) {
    await host.tools.run("span/forget-device", "btrfs", ["device", "scan", "--forget", device.path]);
    await waitForExclusive(volume, device.path);
  }
  for (const member of volume.members) {
    forgetSpare(host, volume, member);
    await host.devices.unpublish(volume.handle, member);
  }
  for (const key of host.deviceUUIDs.keys()) if (key.startsWith(`${volume.handle}/`)) host.deviceUUIDs.delete(key);
}

/** Its record, and devices that a dead agent had not given back; the volumes are other drivers', and their claims the operator's. */
export async function forgetSpan(host: SpanHost, volume: SpanVolume): Promise<void> {
  if (mountedDeviceNames(volume.fsid).length > 0)
    throw new StorageError("DeviceBusy", `btrfs ${volume.fsid} of ${volume.handle} is mounted; unmount it first`);
  await giveBack(host, volume);
  const path = spanRecordPath(host, volume);
  if (existsSync(path)) await host.files.remove("span/remove-record", path);
}
