// Members of the backend loop: sparse files in the member directory, each behind one loop device. Nothing here syncs: the loop device's
// flush, which precedes every superblock that knows a new size, makes the file's length durable too.
import { formatBytes } from "../../../units/quantity.ts";
import type { BlockMembers } from "../block/block-member.ts";
import { readMemberRecord } from "../block/member-record.ts";
import { probe } from "../block/probe-device.ts";
import { assertWholeMember } from "../block/whole-member.ts";
import { BLOCK_GRAIN_BYTES, wholeGrains } from "../size-grain.ts";
import { type LoopVolume, type MountedLoop, StorageError } from "../storage.ts";
import { expectSuccess } from "../tools.ts";
import { waitUntil } from "../wait-until.ts";
import { deviceSizeBytes, findLoopDevices, findOrphanedLoopDevices, isLoopAttached } from "./loop-device.ts";
import { assertMemberDisk, growWithinRoom, hostRoom, type LoopHost, memberExtent, memberPath } from "./loop-host.ts";

const RELEASE_LIMIT_MS = 10_000;
const INTERVAL_MS = 20;

export function createLoopMembers(host: LoopHost): BlockMembers<LoopVolume> {
  const extentOf = (volume: LoopVolume) => memberExtent(memberPath(host, volume));
  return {
    nameOf: ({ memberFile }) => memberFile,
    recordName: ({ memberFile }) => memberFile,
    remedy: "Move the file away if its data is not needed",
    grainBytes: () => BLOCK_GRAIN_BYTES,
    sizeBytes: async (volume) => extentOf(volume)?.sizeBytes,
    mountedBytes: (volume) => extentOf(volume)?.sizeBytes,
    devices: (volume) => devicesOf(host, volume),
    make: (volume, sizeBytes) => make(host, volume, sizeBytes),
    attach: (volume) => attach(host, volume),
    unknownData: async (volume) => {
      const { allocatedBytes } = extentOf(volume) ?? { allocatedBytes: 0 };
      return allocatedBytes === 0 ? undefined : `holds ${formatBytes(allocatedBytes)} of unknown data`;
    },
    noteFormatting: async () => undefined, // a file that has blocks is no new one
    isCopy: async () => false, // snapshots are the backend lvm's
    noteRenamed: async () => undefined,
    settle: async () => undefined, // a truncation has no afterlife
    grow: (volume, presentBytes, toBytes) => grow(host, volume, presentBytes, toBytes),
    room: (volume) => hostRoom(host, volume),
    assertWhole: (volume) => {
      const path = memberPath(host, volume);
      const extent = memberExtent(path);
      if (extent === undefined) return; // its size says that it is gone
      const deviceBytes = deviceSizeBytes(volume.device);
      assertWholeMember({ ...volume, name: path, path, sizeBytes: extent.sizeBytes, deviceBytes });
    },
    superblockPath: (volume) => memberPath(host, volume),
    cut: (volume, _fromBytes, toBytes) => cut(host, volume, toBytes),
    detach: (volume, device) => detach(host, volume, device),
    looksOwn: (volume) => looksOwn(host, volume),
    remove: (volume) => host.files.remove("remove/member", memberPath(host, volume)),
  };
}

async function devicesOf(host: LoopHost, volume: LoopVolume): Promise<string[]> {
  const path = memberPath(host, volume);
  if (memberExtent(path) !== undefined) return findLoopDevices(host.tools, path);
  return findOrphanedLoopDevices(volume.memberFile);
}

async function make(host: LoopHost, volume: LoopVolume, sizeBytes: number): Promise<void> {
  const path = memberPath(host, volume);
  const extent = memberExtent(path);
  // Empty: the crash came between making it and giving it its size. Any other size is kept: only extend and shrink change it.
  if (extent !== undefined && extent.sizeBytes > 0) return;
  const record = readMemberRecord(host.recordDirectory, volume.memberFile);
  if (record !== undefined && record.state !== "formatting")
    throw new StorageError(
      "AlreadyFormatted",
      `member ${path} of ${volume.handle} is ${extent === undefined ? "gone" : "empty"} but was formatted before; bring the ` +
        "file back, or delete the claim if its data is not needed",
    );
  assertMemberDisk(host, volume);
  const wholeBytes = wholeGrains(sizeBytes);
  await growWithinRoom(host, volume, wholeBytes, async () => {
    await host.files.makeDirectory("stage/make-record-directory", host.recordDirectory);
    if (extent === undefined) await host.files.createNew("stage/create-member", path, 0o600);
    await host.files.truncate("stage/size-member", path, wholeBytes);
  });
}

/** Exactly one loop device, of the file's size. */
async function attach(host: LoopHost, volume: LoopVolume): Promise<string> {
  const path = memberPath(host, volume);
  // Before the device: one that is mounted elsewhere would be made as short as its file.
  assertWholeMember({ ...volume, name: path, path, sizeBytes: memberExtent(path)?.sizeBytes ?? 0 });
  const task = `attaching member ${path} of ${volume.handle}`;
  const [present, ...others] = await findLoopDevices(host.tools, path);
  if (others.length > 0)
    throw new StorageError(
      "DeviceBusy",
      `${task}: it is attached more than once (${present}, ${others.join(", ")}); detach what is not mounted by losetup -d`,
    );
  if (present === undefined) {
    const made = await host.tools.run("stage/attach", "losetup", ["--find", "--show", "--nooverlap", path]);
    return expectSuccess(made, task).trim();
  }
  if (deviceSizeBytes(present) !== memberExtent(path)?.sizeBytes)
    expectSuccess(await host.tools.run("stage/refresh-loop", "losetup", ["--set-capacity", present]), task);
  return present;
}

async function grow(host: LoopHost, volume: MountedLoop, presentBytes: number, toBytes: number): Promise<void> {
  const path = memberPath(host, volume);
  if (toBytes > presentBytes)
    await growWithinRoom(host, volume, toBytes - presentBytes, () =>
      host.files.truncate("extend/grow-file", path, toBytes),
    );
  if (deviceSizeBytes(volume.device) !== toBytes)
    expectSuccess(
      await host.tools.run("extend/refresh-loop", "losetup", ["--set-capacity", volume.device]),
      `growing ${volume.device} of ${volume.handle} to ${formatBytes(toBytes)}`,
    );
}

/**
 * A crash after the cut leaves a loop device that is longer than its file; nothing is there that the filesystem would read, and the next
 * stage or recover corrects it.
 */
async function cut(host: LoopHost, volume: MountedLoop, toBytes: number): Promise<number> {
  await host.files.truncate("shrink/truncate-file", memberPath(host, volume), toBytes);
  expectSuccess(
    await host.tools.run("shrink/refresh-loop", "losetup", ["--set-capacity", volume.device]),
    `shrinking ${volume.device} of ${volume.handle} to ${formatBytes(toBytes)}`,
  );
  return toBytes;
}

async function detach({ tools }: LoopHost, volume: LoopVolume, device: string): Promise<void> {
  const detached = await tools.run("unstage/detach", "losetup", ["--detach", device]);
  if (isLoopAttached(device)) expectSuccess(detached, `detaching ${device} of ${volume.handle}`);
  // While anybody has it open the kernel only marks it for detaching.
  if (await waitUntil(() => !isLoopAttached(device), RELEASE_LIMIT_MS, INTERVAL_MS)) return;
  throw new StorageError(
    "DeviceBusy",
    `${device} of ${volume.handle} is still open somewhere; end what holds it (fuser -v ${device})`,
  );
}

async function looksOwn(host: LoopHost, volume: LoopVolume): Promise<boolean> {
  const path = memberPath(host, volume);
  const extent = memberExtent(path);
  if (extent === undefined || extent.allocatedBytes === 0) return true;
  const signatures = await probe(host.tools, volume, path);
  return signatures.length > 0 && signatures.every(({ uuid }) => uuid === volume.fsid);
}
