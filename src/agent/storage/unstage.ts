// Lets go of a volume: stop what runs on it, unmount plainly, detach. Done only when the kernel holds nothing of it any more,
// in no mount namespace: a lazy unmount would say so too early, and a second node could write to the member.
import { existsSync } from "node:fs";
import { stopExclusiveOperation } from "./exclusive-operation.ts";
import { findLoopDevices, isLoopAttached, mountedAnywhere } from "./loop-device.ts";
import { type LoopHost, memberExtent, memberPath } from "./loop-host.ts";
import { memberRecordPath, readMemberRecord } from "./member-record.ts";
import { mountsOf } from "./mount-table.ts";
import { findMounted, memberDevices, probe } from "./stage.ts";
import { type LoopVolume, StorageError, type Volume } from "./storage.ts";
import { expectSuccess, type Finished } from "./tools.ts";
import { waitUntil } from "./wait-until.ts";

const UNMOUNT_LIMIT_MS = 120_000; // It writes out what is dirty.
// A child of a dead agent, or a command whose work is done, may still have the mount open.
const BUSY_LIMIT_MS = 3_000;
const RELEASE_LIMIT_MS = 10_000;
const INTERVAL_MS = 20;

export async function unstage(host: LoopHost, volume: LoopVolume, mountPath: string): Promise<void> {
  const mounted = await findMounted(host, volume, mountPath);
  if (mounted !== undefined) {
    await stopExclusiveOperation(host.tools, mounted);
    await unmount(volume, mountPath, (args, limitMs) => host.tools.run("unstage/unmount", "umount", args, limitMs));
  }
  for (const device of await memberDevices(host, volume)) await detach(host, volume, device);
}

/** Deletes the member, then its record: a crash in between leaves a record that forbids a new mkfs, and a second call ends it. */
export async function removeMember(host: LoopHost, volume: LoopVolume): Promise<void> {
  const path = memberPath(host, volume);
  await assertOwn(host, volume);
  if (memberExtent(path) !== undefined) {
    const devices = await findLoopDevices(host.tools, path);
    const held = devices.find((device) => mountedAnywhere(device) !== undefined);
    if (held !== undefined)
      throw new StorageError("DeviceBusy", `${volume.handle} is mounted from ${held}; unmount it before it is removed`);
    for (const device of devices) await detach(host, volume, device);
    await host.files.remove("remove/member", path);
  }
  const recordPath = memberRecordPath(host.recordDirectory, volume.memberFile);
  if (existsSync(recordPath)) await host.files.remove("remove/record", recordPath);
}

/** A layout that was edited by hand may name another volume's member. What says whose it is, is on the disk. */
async function assertOwn(host: LoopHost, volume: LoopVolume): Promise<void> {
  const path = memberPath(host, volume);
  const record = readMemberRecord(host.recordDirectory, volume.memberFile);
  const extent = memberExtent(path);
  const isOwn =
    record?.volumeUID === volume.volumeUID ||
    (record === undefined && (extent === undefined || (await looksOwn(host, volume, path, extent.allocatedBytes))));
  if (isOwn) return;
  throw new StorageError(
    "WrongFilesystem",
    `member ${path} is not ${volume.handle}'s (${record === undefined ? "no record names it" : `it is recorded as volume ${record.volumeUID}'s`}); ` +
      "it is not deleted. Correct the member's file in the FilesystemLayout, or delete the file by hand",
  );
}

async function looksOwn(host: LoopHost, volume: LoopVolume, path: string, allocatedBytes: number): Promise<boolean> {
  if (allocatedBytes === 0) return true;
  const signatures = await probe(host.tools, volume, path);
  return signatures.length > 0 && signatures.every(({ uuid }) => uuid === volume.fsid);
}

/** Plainly; throws DeviceBusy while anybody uses it. */
export async function unmount(
  volume: Volume,
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

async function detach(host: LoopHost, volume: LoopVolume, device: string): Promise<void> {
  if (!(await waitUntil(() => mountedAnywhere(device) === undefined, RELEASE_LIMIT_MS, INTERVAL_MS)))
    throw new StorageError(
      "DeviceBusy",
      `${device} of ${volume.handle} is still mounted${placesOf(device)}; unmount it`,
    );
  // btrfs remembers scanned devices; the next device of this name must not meet the memory of this one.
  if (volume.fsType === "btrfs")
    await host.tools.run("unstage/forget", "btrfs", ["device", "scan", "--forget", device]);
  const detached = await host.tools.run("unstage/detach", "losetup", ["--detach", device]);
  if (isLoopAttached(device)) expectSuccess(detached, `detaching ${device} of ${volume.handle}`);
  // While anybody has it open the kernel only marks it for detaching.
  if (await waitUntil(() => !isLoopAttached(device), RELEASE_LIMIT_MS, INTERVAL_MS)) return;
  throw new StorageError(
    "DeviceBusy",
    `${device} of ${volume.handle} is still open somewhere; end what holds it (fuser -v ${device})`,
  );
}

function placesOf(device: string): string {
  const places = mountsOf(device).map(({ mountPath }) => mountPath);
  return places.length > 0 ? ` at ${places.join(", ")}` : " in another mount namespace";
}
