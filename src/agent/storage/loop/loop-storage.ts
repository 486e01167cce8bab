// The storage port on loop members: sparse files in the member directory, each behind one loop device. Nothing here syncs: the loop
// device's flush, which precedes every superblock that knows a new size, makes the file's length durable too.

import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename } from "node:path";
import { formatBytes } from "../../../contracts/quantities/quantity.ts";
import { waitUntil } from "../../../platform/process/async/pause.ts";
import type { Clock } from "../../../platform/process/clock.ts";
import type { CommandPort } from "../../../platform/process/effects/command-port.ts";
import type { FilePort } from "../../../platform/process/effects/file-port.ts";
import type { Logger } from "../../../platform/process/log.ts";
import { type BlockMembers, createMovingRoom } from "../block/block-member.ts";
import { type BlockStorage, createBlockStorage } from "../block/block-storage.ts";
import { readMemberRecord } from "../block/member-record.ts";
import { probe } from "../block/probe-device.ts";
import { deviceSizeBytes } from "../filesystem/devices-and-mounts.ts";
import type { MountReader } from "../filesystem/mount-reader.ts";
import { assertWholeMember } from "../filesystem/superblocks.ts";
import { BLOCK_GRAIN_BYTES, type FreeSpace, type LoopVolume, type MountedLoop, wholeGrains } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { createTools, expectSuccess, type Tools } from "../tools.ts";
import { createVolumeQueue } from "../volume-queue.ts";
import {
  assertMemberDisk,
  growWithinRoom,
  hostFreeBytes,
  hostRoom,
  type LoopHost,
  memberExtent,
  memberPath,
} from "./loop-host.ts";

export interface LoopStorageParts {
  /** Where the member files are made; must exist, and not lie on a volume of ours. */
  readonly memberDirectory: string;
  /** Where their records are stored; on the same disk, so that neither survives the other. */
  readonly recordDirectory: string;
  /** Left free on their disk, in bytes, of a disk of so many. Absent: nothing is. */
  readonly reserveBytes?: (diskBytes: number) => number;
  readonly mounts: MountReader;
  readonly commands: CommandPort;
  readonly files: FilePort;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface LoopStorage extends BlockStorage<LoopVolume>, FreeSpace {}

export function createLoopStorage(parts: LoopStorageParts): LoopStorage {
  const { memberDirectory, recordDirectory, reserveBytes = () => 0, mounts, commands, files, clock, log } = parts;
  const tools = createTools(commands);
  const memberDisk = statSync(memberDirectory).dev;
  const room = { claimedBytes: 0 };
  const host: LoopHost = { memberDirectory, memberDisk, recordDirectory, reserveBytes, tools, files, room };
  const members = createLoopMembers(host);
  const storage = createBlockStorage<LoopVolume>(
    { members, recordDirectory, mounts, tools, files, clock, log, moving: createMovingRoom() },
    createVolumeQueue(),
    async () => undefined,
  );
  return { ...storage, freeBytes: async () => hostFreeBytes(host) };
}

const RELEASE_LIMIT_MS = 10_000;
const INTERVAL_MS = 20;

function createLoopMembers(host: LoopHost): BlockMembers<LoopVolume> {
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
    noteFormatting: async () => undefined, // a file that has blocks is not a new one
    isCopy: async () => false, // snapshots are the backend lvm's
    noteRenamed: async () => undefined,
    endEarlierCut: async () => undefined, // a truncation has no afterlife
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
  // Empty: the crash came between creating the file and giving it its size. Any other size stays: only extend and shrink change it.
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
  await growWithinRoom(host, wholeBytes, async () => {
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
    await growWithinRoom(host, toBytes - presentBytes, () => host.files.truncate("extend/grow-file", path, toBytes));
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
  // While a process has it open the kernel only marks it for detaching.
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

/** What the kernel puts behind the name of a file that is deleted and still open: d_path(). */
const DELETED = " (deleted)";

/** Devices over this file, found by its inode: a path may read differently from another mount namespace. */
async function findLoopDevices(tools: Tools, memberPath: string): Promise<string[]> {
  const listed = await tools.query("losetup", ["--noheadings", "--output", "NAME", "--associated", memberPath]);
  return expectSuccess(listed, `looking for the loop device of ${memberPath}`).split("\n").filter(Boolean);
}

/** Devices whose file has been deleted under them, found by its name: its inode can no longer be looked up. */
function findOrphanedLoopDevices(memberFile: string): string[] {
  return readdirSync("/sys/block")
    .filter((name) => backingFile(name)?.endsWith(`/${memberFile}${DELETED}`) === true)
    .map((name) => `/dev/${name}`);
}

/** As the kernel names it; undefined where nothing is attached. */
function backingFile(name: string): string | undefined {
  try {
    return readFileSync(`/sys/block/${name}/loop/backing_file`, "utf8").trim();
  } catch {
    return undefined; // not a loop device, or detached
  }
}

export function isLoopAttached(device: string): boolean {
  return existsSync(`/sys/block/${basename(device)}/loop/backing_file`);
}
