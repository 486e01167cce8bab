// The storage port without root: the mount is a plain directory, the size a number. It changes sizes as slowly as a real filesystem does,
// and refuses and cancels by the same decisions. It cannot hold a writer to the size.
// A member is a JSON file with the volume's identity and size; a staged volume also shows its size in the capacity file next to its mount.

import { readFileSync, statfsSync } from "node:fs";
import { basename, join } from "node:path";
import * as z from "zod";
import { FS_TYPES } from "../../../contracts/kinds/filesystem-layout.ts";
import { formatBytes } from "../../../contracts/quantities/quantity.ts";
import { pause } from "../../../platform/process/async/pause.ts";
import type { Clock } from "../../../platform/process/clock.ts";
import type { FilePort } from "../../../platform/process/effects/file-port.ts";
import {
  cancelReason,
  decideShrinkMove,
  type SpaceSample,
  STEP_MAX_BYTES,
  stoppedMessage,
  stoppedShrink,
} from "../decide-shrink.ts";
import {
  BLOCK_GRAIN_BYTES,
  type FreeSpace,
  type FreshReadings,
  type LoopVolume,
  type MountedLoop,
  type Mounting,
  type Resizing,
  type ShrinkControl,
  type ShrinkResult,
  wholeGrains,
} from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { createVolumeQueue } from "../volume-queue.ts";
import { readSimulated, readSimulatedCapacity, simulatedCapacityPath } from "./simulated-reader.ts";

const EXTEND_MS = 10; // About what btrfs takes on a fast disk.

export interface SimulatedStorage
  extends Mounting<LoopVolume>,
    Resizing<LoopVolume>,
    FreshReadings<LoopVolume>,
    FreeSpace {}

export function createSimulatedStorage(disk: SimulatedDisk): SimulatedStorage {
  const queue = createVolumeQueue();
  return {
    stage: (volume, sizeBytes, mountPath) => queue.run(volume.handle, () => stage(disk, volume, sizeBytes, mountPath)),
    unstage: (volume, mountPath) => queue.runPreempting(volume.handle, () => unstage(disk, volume, mountPath)),
    find: async (volume, mountPath) => find(disk, volume, mountPath),
    mountPath: async () => undefined,
    sizeBytes: async (volume) => readSimulatedMember(disk, volume)?.capacityBytes,
    extend: (volume, sizeBytes) => queue.runPreempting(volume.handle, () => extend(disk, volume, sizeBytes)),
    shrink: (volume, sizeBytes, control) =>
      queue.runPreemptible(volume.handle, control.signal, (signal) =>
        shrinkSimulated(disk, volume, wholeGrains(sizeBytes), { ...control, signal }),
      ),
    recover: (volume) => queue.run(volume.handle, () => extend(disk, volume, 0)),
    freshReading: async (volume) => readSimulated(volume.mountPath),
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

const STEP_MS = 200; // About what btrfs takes on a fast disk.
const WATCH_INTERVAL_MS = 50;

/** The moves, the watch and the floor of a real one, over a number instead of a filesystem. */
export async function shrinkSimulated(
  disk: SimulatedDisk,
  volume: MountedLoop,
  targetBytes: number,
  control: ShrinkControl,
): Promise<ShrinkResult> {
  let sizeBytes = requireSimulatedMember(disk, volume).capacityBytes;
  while (!control.signal.aborted) {
    const { availableBytes, dataBytes: usedBytes } = readSimulated(volume.mountPath);
    const facts = { sizeBytes, targetBytes, availableBytes, usedBytes, reserveBytes: control.reserveBytes() };
    const limits = {
      filesystemMinBytes: 0,
      stepMaxBytes: STEP_MAX_BYTES,
      grainBytes: BLOCK_GRAIN_BYTES,
      balancesDone: 0,
      room: undefined,
      immovable: undefined,
    };
    const move = decideShrinkMove({ ...facts, ...limits });
    if (move.kind === "reached") return { outcome: "Succeeded", sizeBytes };
    if (move.kind === "floor")
      return { outcome: "FloorReached", sizeBytes, floorBytes: move.floorBytes, usedBytes, message: move.message };
    const toBytes = move.kind === "resize" ? move.toBytes : sizeBytes;
    const reason = await watchStep(disk, volume, sizeBytes - toBytes, control);
    if (reason !== undefined) return { outcome: "Cancelled", sizeBytes, message: reason };
    await setSimulatedCapacity(disk, volume, toBytes);
    sizeBytes = toBytes;
    control.onStep(sizeBytes);
  }
  return stoppedShrink(sizeBytes, targetBytes, control.signal);
}

/** Why the step was cancelled. As on btrfs its bytes are out of the writers' reach from its beginning. */
async function watchStep(
  { clock }: SimulatedDisk,
  volume: MountedLoop,
  stepBytes: number,
  control: ShrinkControl,
): Promise<string | undefined> {
  const samples: SpaceSample[] = [];
  const endMs = clock.monotonicMs() + STEP_MS;
  while (clock.monotonicMs() < endMs) {
    await pause(WATCH_INTERVAL_MS, control.signal);
    if (control.signal.aborted) return stoppedMessage(control.signal);
    const { availableBytes, dataBytes } = readSimulated(volume.mountPath);
    samples.push({ atMs: clock.monotonicMs(), availableBytes: availableBytes - stepBytes, dataBytes });
    const reason = cancelReason(samples, control.reserveBytes());
    if (reason !== undefined) return reason;
  }
  return undefined;
}

export interface SimulatedDisk {
  /** Where the members are stored; must exist. The data itself stays in the mount directories. */
  readonly directory: string;
  readonly files: FilePort;
  readonly clock: Clock;
}

const simulatedMember = z.object({
  volumeUID: z.string(),
  fsid: z.string(),
  fsType: z.enum(FS_TYPES),
  capacityBytes: z.int(),
  mountPath: z.string(),
  staged: z.boolean(),
});
export type SimulatedMember = z.infer<typeof simulatedMember>;

export function simulatedMemberPath({ directory }: SimulatedDisk, volume: LoopVolume): string {
  if (volume.memberFile !== basename(volume.memberFile) || volume.memberFile.startsWith("."))
    throw new StorageError("CommandFailed", `"${volume.memberFile}" of ${volume.handle} is not a plain file name`);
  return join(directory, `${volume.memberFile}.json`);
}

export function simulatedMemberText(member: SimulatedMember): string {
  return `${JSON.stringify(member)}\n`;
}

export function readSimulatedMember(disk: SimulatedDisk, volume: LoopVolume): SimulatedMember | undefined {
  try {
    return simulatedMember.parse(JSON.parse(readFileSync(simulatedMemberPath(disk, volume), "utf8")));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

export function requireSimulatedMember(disk: SimulatedDisk, volume: LoopVolume): SimulatedMember {
  const member = readSimulatedMember(disk, volume);
  if (member !== undefined) return member;
  throw new StorageError("CommandFailed", `${volume.handle} has no member in ${disk.directory}; stage it first`);
}

export function simulatedFreeBytes({ directory }: SimulatedDisk): number {
  const { bavail, bsize } = statfsSync(directory);
  return bavail * bsize;
}

export function assertSimulatedRoom(disk: SimulatedDisk, volume: LoopVolume, growthBytes: number): void {
  const freeBytes = simulatedFreeBytes(disk);
  if (growthBytes <= freeBytes) return;
  throw new StorageError(
    "DiskFull",
    `${volume.handle} needs ${formatBytes(growthBytes)} more, but ${disk.directory} has ${formatBytes(freeBytes)} left; free space there`,
  );
}

/** The member first: it is what a stage after a crash goes by. */
export async function setSimulatedCapacity(
  disk: SimulatedDisk,
  volume: MountedLoop,
  capacityBytes: number,
): Promise<void> {
  const { files } = disk;
  const text = simulatedMemberText({ ...requireSimulatedMember(disk, volume), capacityBytes });
  await files.writeWhole("extend/grow-file", simulatedMemberPath(disk, volume), text);
  const capacityPath = simulatedCapacityPath(volume.mountPath);
  await files.writeWhole("extend/resize-filesystem", capacityPath, String(capacityBytes), 0o644);
}
