// How much a mounted filesystem holds and can still take, right now. Synchronous on purpose: a few microseconds of statfs and of
// sysfs files that stay open. Neither waits for the disk, even under a frozen btrfs or a dead loop device; a pooled read would
// queue behind others' fsyncs. That is so of kernel filesystems on loop devices: FUSE and NFS, which another driver's may be, can
// block statfs for good, and the thread with it.
import { closeSync, openSync, readSync, statfsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { copiesOf, dataProfilesOf, NO_DATA_PROFILES } from "../../../api/data-profiles.ts";
import type { FsType } from "../../../api/filesystem-layout.ts";
import { systemClock } from "../../../process/clock.ts";
import { type MetadataRoom, openMetadataRoom } from "../btrfs/btrfs-metadata-room.ts";
import { allocationDirectory, readProfiles } from "../btrfs/btrfs-profiles.ts";
import { exclusiveOperationPath } from "../btrfs/exclusive-operation.ts";
import { readSimulatedCapacity, simulatedUse } from "../simulated/simulated-reader.ts";
import type { Reading } from "../storage.ts";

export interface FilesystemReading extends Reading {
  /** Data written and reserved: what statfs shows as used plus what writers have announced. */
  readonly dataBytes: number;
  /** The kernel moves data within the filesystem (a resize, a balance), so that dataBytes grows without any writer. */
  readonly movesData: boolean;
}

/** What the devices have together: a few sectors less where data has copies, which statfs has no half of. */
export function deviceBytesOf({ capacityBytes, dataProfiles }: Reading): number {
  return capacityBytes * copiesOf(dataProfiles);
}

/** Whether the filesystem uses so many bytes of its devices. */
export function hasGrownTo({ capacityBytes, dataProfiles }: Reading, deviceBytes: number): boolean {
  return capacityBytes >= wholeBlocks(deviceBytes / copiesOf(dataProfiles));
}

function wholeBlocks(bytes: number): number {
  return Math.floor(bytes / BLOCK_BYTES) * BLOCK_BYTES;
}

export interface Reader {
  read(): FilesystemReading;
  close(): void;
}

export interface ReadableMount {
  readonly mountPath: string;
  /** "foreign": another driver's, whatever it is, read by statfs alone. */
  readonly fsType: FsType | "foreign";
  readonly fsid: string;
}

const TEXT_LENGTH_LIMIT = 32;
/** btrfs counts in them (kernel, fs/btrfs/super.c: btrfs_statfs). */
const BLOCK_BYTES = 4096;

/**
 * For a mounted filesystem; `sampledAtMs` is Unix time. An open reader does not keep it from being unmounted; read() throws from
 * then on, rather than answer for the filesystem underneath.
 */
export function openReader(mount: ReadableMount): Reader {
  if (mount.fsType === "foreign") return openForeignReader(mount);
  return readSimulatedCapacity(mount.mountPath) === undefined ? openKernelReader(mount) : openSimulatedReader(mount);
}

/** Nobody tells when another driver's is unmounted: what then is at its path, the node's own disk, is never read for it. */
function openForeignReader(mount: ReadableMount): Reader {
  if (statSync(mount.mountPath).dev === statSync(dirname(mount.mountPath)).dev)
    throw new Error(`nothing is mounted at ${mount.mountPath}`);
  return openKernelReader(mount);
}

function openKernelReader(mount: ReadableMount): Reader {
  const deviceNumber = statSync(mount.mountPath).dev;
  const pending = mount.fsType === "btrfs" ? openPending(mount.fsid) : [];
  const exclusive = mount.fsType === "btrfs" ? [openSync(exclusiveOperationPath(mount.fsid), "r")] : [];
  const metadata = mount.fsType === "btrfs" ? openMetadataRoom(allocationDirectory(mount.fsid)) : undefined;
  const buffer = Buffer.alloc(TEXT_LENGTH_LIMIT);
  const readNumber = (file: number): number => Number(readText(file, buffer));
  return {
    read: () => {
      // Reservations first: bytes that move from reserved to used in between are then counted twice, never missed.
      const pendingBytes = pending.reduce((sum, file) => sum + readNumber(file), 0);
      const movesData = exclusive.some((file) => readText(file, buffer).trim() !== "none");
      const dataProfiles = metadata?.dataHasCopies(readNumber) === true ? readDataProfiles(mount) : NO_DATA_PROFILES;
      const figures = { ...readingOf(mount.mountPath, pendingBytes, movesData), dataProfiles };
      const reading = metadataCounted(figures, metadata, readNumber);
      if (statSync(mount.mountPath).dev !== deviceNumber) throw new Error(`${mount.mountPath} is no longer mounted`);
      return reading;
    },
    close: () => {
      for (const file of pending.splice(0)) closeSync(file);
      for (const file of exclusive.splice(0)) closeSync(file);
      metadata?.close();
    },
  };
}

/** What no file can be made for is not available. */
function metadataCounted(
  reading: FilesystemReading,
  metadata: MetadataRoom | undefined,
  readNumber: (file: number) => number,
): FilesystemReading {
  if (metadata === undefined || metadata.isLeft(deviceBytesOf(reading), readNumber)) return reading;
  return { ...reading, availableBytes: 0 };
}

/** Looked up only where there are copies: these are many directory entries, for a number that is seldom not 1. */
function readDataProfiles({ fsid }: ReadableMount): number {
  return dataProfilesOf(readProfiles(fsid, "data"));
}

// On btrfs statfs shows a write only once its transaction commits, up to 30 s later; these show it at once.
function openPending(fsid: string): number[] {
  return ["bytes_may_use", "bytes_reserved"].map((name) =>
    openSync(join(allocationDirectory(fsid), "data", name), "r"),
  );
}

function readText(file: number, buffer: Buffer): string {
  return buffer.toString("latin1", 0, readSync(file, buffer, 0, TEXT_LENGTH_LIMIT, 0));
}

function readingOf(mountPath: string, pendingBytes: number, movesData: boolean): FilesystemReading {
  const { blocks, bfree, bavail, bsize, files, ffree } = statfsSync(mountPath);
  return {
    sampledAtMs: systemClock.nowMs(),
    takenMs: systemClock.monotonicMs(),
    capacityBytes: blocks * bsize,
    availableBytes: Math.max(0, bavail * bsize - pendingBytes),
    inodesTotal: files,
    inodesUsed: files - ffree,
    dataProfiles: NO_DATA_PROFILES,
    dataBytes: (blocks - bfree) * bsize + pendingBytes,
    movesData,
  };
}

function openSimulatedReader({ mountPath }: ReadableMount): Reader {
  return {
    read: () => {
      const capacityBytes = readSimulatedCapacity(mountPath);
      if (capacityBytes === undefined) throw new Error(`${mountPath} is no longer staged`);
      const { usedBytes, inodesUsed } = simulatedUse(mountPath);
      const availableBytes = Math.max(0, capacityBytes - usedBytes);
      return {
        sampledAtMs: systemClock.nowMs(),
        takenMs: systemClock.monotonicMs(),
        capacityBytes,
        availableBytes,
        inodesTotal: 0,
        inodesUsed,
        dataProfiles: NO_DATA_PROFILES,
        dataBytes: usedBytes,
        movesData: false,
      };
    },
    close: () => undefined,
  };
}
