// The members of the simulated disk: one JSON file each with the volume's identity and size. What is staged shows its size in
// the capacity file beside its mount directory as well.
import { readFileSync, statfsSync } from "node:fs";
import { basename, join } from "node:path";
import { z } from "zod";
import { FS_TYPES } from "../../../api/filesystem-layout.ts";
import type { Clock } from "../../../process/clock.ts";
import type { FilePort } from "../../../process/file-port.ts";
import { formatBytes } from "../../../units/quantity.ts";
import { type LoopVolume, type MountedLoop, StorageError } from "../storage.ts";
import { simulatedCapacityPath } from "./simulated-reader.ts";

export interface SimulatedDisk {
  /** Where the members are kept; must exist. The data itself stays in the mount directories. */
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
    throw new StorageError("CommandFailed", `"${volume.memberFile}" of ${volume.handle} is no plain file name`);
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
