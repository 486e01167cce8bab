// The storage port without root: the mount is a plain directory, the size a number. It changes sizes as slowly, and refuses and
// cancels as a real filesystem does, by the same decisions; it holds nobody to the size.

import { setTimeout as pause } from "node:timers/promises";
import { openReader } from "../filesystem/read-filesystem.ts";
import { NO_UNMOUNTED_SHRINKS } from "../no-unmounted-shrinks.ts";
import { wholeGrains } from "../size-grain.ts";
import { type LoopVolume, type MountedLoop, type Storage, StorageError } from "../storage.ts";
import { createVolumeQueue } from "../volume-queue.ts";
import { shrinkSimulated } from "./shrink-simulated.ts";
import {
  assertSimulatedRoom,
  readSimulatedMember,
  requireSimulatedMember,
  type SimulatedDisk,
  type SimulatedMember,
  setSimulatedCapacity,
  simulatedFreeBytes,
  simulatedMemberPath,
  simulatedMemberText,
} from "./simulated-member.ts";
import { readSimulatedCapacity, simulatedCapacityPath } from "./simulated-reader.ts";

const EXTEND_MS = 10; // About what btrfs takes on a fast disk.

export function createSimulatedStorage(disk: SimulatedDisk): Storage<LoopVolume> {
  const queue = createVolumeQueue();
  return {
    ...NO_UNMOUNTED_SHRINKS,
    kind: "simulated",
    stage: (volume, sizeBytes, mountPath) => queue.run(volume.handle, () => stage(disk, volume, sizeBytes, mountPath)),
    unstage: (volume, mountPath) => queue.runPreempting(volume.handle, () => unstage(disk, volume, mountPath)),
    find: async (volume, mountPath) => find(disk, volume, mountPath),
    mountPath: async () => undefined,
    sizeBytes: async (volume) => readSimulatedMember(disk, volume)?.capacityBytes,
    members: async () => [],
    immovable: async () => undefined,
    extend: (volume, sizeBytes) => queue.runPreempting(volume.handle, () => extend(disk, volume, sizeBytes)),
    shrink: (volume, sizeBytes, control) =>
      queue.runPreemptible(volume.handle, control.signal, (signal) =>
        shrinkSimulated(disk, volume, wholeGrains(sizeBytes), { ...control, signal }),
      ),
    recover: (volume) => queue.run(volume.handle, () => extend(disk, volume, 0)),
    settle: async () => undefined,
    prepareSpares: async () => undefined,
    trim: async () => 0,
    freshReading: async (volume) => openReader(volume).read(),
    remove: (volume) => queue.run(volume.handle, () => remove(disk, volume)),
    freeBytes: async () => simulatedFreeBytes(disk),
  };
}

async function stage(
  disk: SimulatedDisk,
  volume: LoopVolume,
  sizeBytes: number,
  mountPath: string,
): Promise<MountedLoop> {
  const { files } = disk;
  const { volumeUID, fsid, fsType } = volume;
  const path = simulatedMemberPath(disk, volume);
  const present = readSimulatedMember(disk, volume);
  assertSame(volume, present, mountPath);
  const capacityBytes = present?.capacityBytes ?? wholeGrains(sizeBytes);
  if (present === undefined) assertSimulatedRoom(disk, volume, capacityBytes);
  const member: SimulatedMember = { volumeUID, fsid, fsType, capacityBytes, mountPath, staged: true };
  await files.makeDirectory("stage/make-mount-point", mountPath);
  await files.writeWhole("stage/record-mounted", path, simulatedMemberText(member));
  await files.writeWhole("stage/mount", simulatedCapacityPath(mountPath), String(capacityBytes), 0o644);
  return { ...volume, device: path, mountPath };
}

function assertSame(volume: LoopVolume, present: SimulatedMember | undefined, mountPath: string): void {
  if (present === undefined) return;
  if (present.fsid !== volume.fsid)
    throw new StorageError(
      "WrongFilesystem",
      `${volume.memberFile} belongs to ${present.fsid}, not to ${volume.fsid} of ${volume.handle}`,
    );
  if (present.staged && present.mountPath !== mountPath)
    throw new StorageError("DeviceBusy", `${volume.handle} is staged at ${present.mountPath}; unstage it there first`);
}

async function unstage(disk: SimulatedDisk, volume: LoopVolume, mountPath: string): Promise<void> {
  const member = readSimulatedMember(disk, volume);
  if (member === undefined || member.mountPath !== mountPath) return;
  await disk.files.remove("unstage/unmount", simulatedCapacityPath(mountPath));
  const text = simulatedMemberText({ ...member, staged: false });
  await disk.files.writeWhole("unstage/detach", simulatedMemberPath(disk, volume), text);
}

function find(disk: SimulatedDisk, volume: LoopVolume, mountPath: string): MountedLoop | undefined {
  const member = readSimulatedMember(disk, volume);
  if (member?.staged !== true || member.mountPath !== mountPath) return undefined;
  if (readSimulatedCapacity(mountPath) === undefined) return undefined;
  return { ...volume, device: simulatedMemberPath(disk, volume), mountPath };
}

async function extend(disk: SimulatedDisk, volume: MountedLoop, sizeBytes: number): Promise<number> {
  const presentBytes = requireSimulatedMember(disk, volume).capacityBytes;
  const wantedBytes = Math.max(presentBytes, wholeGrains(sizeBytes));
  assertSimulatedRoom(disk, volume, wantedBytes - presentBytes);
  await pause(EXTEND_MS);
  await setSimulatedCapacity(disk, volume, wantedBytes);
  return wantedBytes;
}

// The data goes first: with the member gone nothing would say where it was.
async function remove(disk: SimulatedDisk, volume: LoopVolume): Promise<void> {
  const member = readSimulatedMember(disk, volume);
  if (member === undefined) return;
  if (member.staged)
    throw new StorageError("DeviceBusy", `${volume.handle} is staged at ${member.mountPath}; unstage it first`);
  await disk.files.remove("remove/member", member.mountPath);
  await disk.files.remove("remove/record", simulatedMemberPath(disk, volume));
}
