// Lets go of a volume: stop what runs on it, unmount plainly, detach. Done only when the kernel holds nothing of it any more,
// in no mount namespace: a lazy unmount would say so too early, and a second node could write to the member.
import { existsSync } from "node:fs";
import type { Logger } from "../../../process/log.ts";
import { stopExclusiveOperation } from "../btrfs/stop-exclusive.ts";
import { mountsOfDevice } from "../filesystem/mount-table.ts";
import { mountedAnywhere } from "../loop/loop-device.ts";
import { type RawVolume, StorageError, type VolumeIdentity } from "../storage.ts";
import type { Finished } from "../tools.ts";
import { waitUntil } from "../wait-until.ts";
import type { BlockHost, BlockMembers, OneMemberVolume } from "./block-member.ts";
import { memberRecordPath, readMemberRecord } from "./member-record.ts";
import { findMounted } from "./stage.ts";

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
  log.warn({ volume: handle, others }, "somebody else's work on a filesystem that is unmounted is cancelled");
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
  { members, recordDirectory }: { readonly members: BlockMembers<V>; readonly recordDirectory: string },
  volume: V,
): Promise<void> {
  const record = readMemberRecord(recordDirectory, members.recordName(volume));
  const isOwn = record === undefined ? await members.looksOwn(volume) : record.volumeUID === volume.volumeUID;
  if (isOwn) return;
  throw new StorageError(
    "WrongFilesystem",
    `member ${members.nameOf(volume)} is not ${volume.handle}'s (${record === undefined ? "no record names it" : `it is recorded as volume ${record.volumeUID}'s`}); ` +
      "it is not deleted. Correct the member's source in the FilesystemLayout, or delete the member by hand",
  );
}

/** Plainly; throws DeviceBusy while anybody uses it. */
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
    `${volume.handle} cannot be unmounted from ${mountPath}: ${said}; end what uses it (fuser -vm ${mountPath})`,
  );
}

async function detach<V extends OneMemberVolume>(host: BlockHost<V>, volume: V, device: string): Promise<void> {
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
