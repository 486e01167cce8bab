// The storage port on logical volumes that pods get as they are. Nothing here formats, mounts or reads what is on the device: staging
// binds its node, an extend grows the logical volume alone, and nothing makes it smaller.
import { existsSync } from "node:fs";
import { formatBytes } from "../../../contracts/quantities/quantity.ts";
import { createKeyedQueue } from "../../../platform/process/async/keyed-queue.ts";
import type { BlockHost, MemberAttachment, MemberNames, MemberRemoval, MemberSizes } from "../block/block-member.ts";
import { waitForExclusive } from "../block/probe-device.ts";
import { bindsOfDevice, stagedDevicePath, stagingPathOf } from "../block/raw-device.ts";
import { assertOwn, unmount } from "../block/stage.ts";
import { assertNoLink, blockDeviceAt, mountAt } from "../filesystem/devices-and-mounts.ts";
import { type Mounted, type Mounting, type RawVolume, type Resizing, wholeGrains } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { expectSuccess } from "../tools.ts";

type RawMembers = MemberNames<RawVolume> &
  MemberSizes<RawVolume> &
  MemberAttachment<RawVolume> &
  MemberRemoval<RawVolume>;

export interface RawHost extends Pick<BlockHost<never>, "files" | "tools" | "recordDirectory"> {
  readonly members: RawMembers;
}

type MountedRaw = Mounted<RawVolume>;

/** What is in a raw device is unknown: it is neither read nor trimmed. */
export interface RawStorage extends Mounting<RawVolume>, Resizing<RawVolume> {}

export function createRawStorage(host: RawHost): RawStorage {
  const { members } = host;
  const queue = createKeyedQueue();
  return {
    stage: (volume, _sizeBytes, stagingPath) => queue.run(volume.handle, () => stage(host, volume, stagingPath)),
    unstage: (volume, stagingPath) => queue.run(volume.handle, () => unstage(host, volume, stagingPath)),
    find: (volume, stagingPath) => find(host, volume, stagingPath),
    mountPath: async (volume) => (await members.devices(volume)).flatMap((device) => stagingPathOf(device) ?? [])[0],
    sizeBytes: (volume) => members.sizeBytes(volume),
    extend: (volume, sizeBytes) => queue.run(volume.handle, () => extend(host, volume, sizeBytes)),
    shrink: async (volume) => neverSmaller(presentBytes(host, volume)),
    recover: async (volume) => presentBytes(host, volume),
    remove: (volume) => queue.run(volume.handle, () => remove(host, volume)),
  };
}

async function stage(host: RawHost, volume: RawVolume, stagingPath: string): Promise<MountedRaw> {
  const { members, files, tools } = host;
  await members.make(volume, 0);
  const staged = await find(host, volume, stagingPath);
  if (staged !== undefined) return staged;
  const device = await members.attach(volume);
  await waitForExclusive(volume, device);
  const path = stagedDevicePath(stagingPath);
  assertNoLink(path);
  await files.makeDirectory("stage/make-device-directory", stagingPath);
  await files.writeWhole("stage/make-device-file", path, "");
  const bound = await tools.run("stage/bind-device", "mount", ["--bind", device, path]);
  expectSuccess(bound, `binding ${device} of ${volume.handle} to ${path}`);
  return { ...volume, device, mountPath: stagingPath };
}

/** Throws WrongFilesystem where another device is bound there. */
async function find({ members }: RawHost, volume: RawVolume, stagingPath: string): Promise<MountedRaw | undefined> {
  const path = stagedDevicePath(stagingPath);
  if (mountAt(path) === undefined) return undefined;
  const shown = blockDeviceAt(path)?.path;
  const device = (await members.devices(volume)).find((candidate) => candidate === shown);
  if (device !== undefined) return { ...volume, device, mountPath: stagingPath };
  throw new StorageError(
    "WrongFilesystem",
    `unmount ${path} by hand: it shows ${shown ?? "no device"}, not member ${members.nameOf(volume)}`,
  );
}

/** Done when the device is published to no pod, and no process holds it exclusively. */
async function unstage(host: RawHost, volume: RawVolume, stagingPath: string): Promise<void> {
  const path = stagedDevicePath(stagingPath);
  const staged = await find(host, volume, stagingPath);
  if (staged !== undefined) {
    assertUnused(volume, staged.device, path);
    await waitForExclusive(volume, staged.device);
    await unmount(volume, path, (args, limitMs) => host.tools.run("unstage/unbind-device", "umount", args, limitMs));
    await host.members.detach(volume, staged.device);
  }
  if (existsSync(path)) await host.files.remove("unstage/remove-device-file", path);
}

/** `except`: the one place where it may still be. */
function assertUnused(volume: RawVolume, device: string, except: string | undefined): void {
  const others = bindsOfDevice(device).filter((path) => path !== except);
  if (others.length === 0) return;
  throw new StorageError(
    "DeviceBusy",
    `${device} of ${volume.handle} is still shown at ${others.join(", ")}; end the pod that uses it`,
  );
}

/** Online: a process that has the device open sees the new size at once. */
async function extend(host: RawHost, volume: MountedRaw, sizeBytes: number): Promise<number> {
  const { members } = host;
  const present = presentBytes(host, volume);
  const wanted = Math.max(present, wholeGrains(sizeBytes, members.grainBytes(volume)));
  await members.grow(volume, present, wanted);
  return wanted;
}

function presentBytes({ members }: RawHost, volume: MountedRaw): number {
  const sizeBytes = members.mountedBytes(volume);
  if (sizeBytes !== undefined) return sizeBytes;
  throw new StorageError(
    "CommandFailed",
    `member ${members.nameOf(volume)} of ${volume.handle} was deleted while it is staged`,
  );
}

function neverSmaller(sizeBytes: number) {
  const message = `a raw block volume is never made smaller than its ${formatBytes(sizeBytes)}: the end of its data is unknown`;
  return { outcome: "FloorReached" as const, sizeBytes, floorBytes: sizeBytes, message };
}

async function remove(host: RawHost, volume: RawVolume): Promise<void> {
  const { members } = host;
  await assertOwn(host, volume);
  if ((await members.sizeBytes(volume)) === undefined) return;
  for (const device of await members.devices(volume)) {
    assertUnused(volume, device, undefined);
    await waitForExclusive(volume, device);
    await members.detach(volume, device);
  }
  await members.remove(volume);
}
