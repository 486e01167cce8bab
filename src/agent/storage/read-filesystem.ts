// How much a mounted filesystem holds and can still take, right now. Synchronous on purpose: a few microseconds of statfs and of
// sysfs files that stay open. Neither waits for the disk, even under a frozen btrfs or a dead loop device; a pooled read would
// queue behind others' fsyncs. That is so of kernel filesystems on loop devices: FUSE and NFS, which another driver's may be, can
// block statfs for good, and the thread with it.
import { closeSync, openSync, readSync, statfsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import type { FsType } from "../../api/filesystem-layout.ts";
import { systemClock } from "../../process/clock.ts";
import { type MetadataRoom, openMetadataRoom } from "./btrfs-metadata-room.ts";
import { exclusiveOperationPath } from "./exclusive-operation.ts";
import { readSimulatedCapacity, simulatedUse } from "./simulated-reader.ts";
import type { Reading } from "./storage.ts";

export interface FilesystemReading extends Reading {
  /** Data written and reserved: what statfs shows as used plus what writers have announced. */
  readonly dataBytes: number;
  /** The kernel moves data within the filesystem (a resize, a balance), so that dataBytes grows without any writer. */
  readonly movesData: boolean;
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
      const reading = metadataCounted(readingOf(mount.mountPath, pendingBytes, movesData), metadata, readNumber);
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
  if (metadata === undefined || metadata.isLeft(reading.capacityBytes, readNumber)) return reading;
  return { ...reading, availableBytes: 0 };
}

// On btrfs statfs shows a write only once its transaction commits, up to 30 s later; these show it at once.
function openPending(fsid: string): number[] {
  return ["bytes_may_use", "bytes_reserved"].map((name) =>
    openSync(join(allocationDirectory(fsid), "data", name), "r"),
  );
}

function allocationDirectory(fsid: string): string {
  return join("/sys/fs/btrfs", fsid, "allocation");
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
        dataBytes: usedBytes,
        movesData: false,
      };
    },
    close: () => undefined,
  };
}
