// How much a mounted filesystem holds and can still take, right now. Synchronous: a few microseconds of statfs and of sysfs files that stay
// open, which wait for no disk, even under a frozen btrfs or a dead loop device; a pooled read would queue behind others' fsyncs. A driver
// that does not answer, as of FUSE and NFS, blocks statfs without end, and the thread with it: only threads that can be left import this.

import { closeSync, openSync, readFileSync, readSync, statfsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { dataProfilesOf, NO_DATA_PROFILES } from "../../../contracts/formulas/data-profiles.ts";
import { MIB } from "../../../contracts/quantities/quantity.ts";
import { systemClock } from "../../../platform/process/clock.ts";
import { exclusiveOperationPath } from "../btrfs/exclusive-operation.ts";
import { allocationDirectory, readProfiles } from "../btrfs/immovable-data.ts";
import { deviceBytesOf, type FilesystemReading, type ReadableMount } from "../filesystem/mount-reader.ts";
import { readSimulated, readSimulatedCapacity } from "../simulated/simulated-reader.ts";

export interface Reader {
  /** Of the filesystem that was there when it was opened. */
  readonly deviceNumber: number;
  read(): FilesystemReading;
  close(): void;
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

/** No event says that another driver's filesystem was unmounted. What is at its path then, the node's own disk, is never read for it. */
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
    deviceNumber,
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
  const { dev: deviceNumber } = statSync(mountPath);
  return { deviceNumber, read: () => readSimulated(mountPath), close: () => undefined };
}

/** With this much unallocated the kernel makes another chunk of any kind. */
const CHUNK_ROOM_BYTES = 512 * MIB;
/** What is left of the metadata chunks when the room counts as used up: a sixteenth of them, at least this. */
const ROOM_MIN_BYTES = 8 * MIB;
const ROOM_FRACTION = 1 / 16;

/**
 * Whether a btrfs has room left for metadata. Deletions leave half-empty data chunks; when these hold all of the device, a writer of many
 * small files gets ENOSPC while statfs shows gigabytes available. Only room for another metadata chunk mends that: a larger device. Counted
 * is what stays: blocks in use, and the kernel's own reserve. Promises to writers (may_use) fill the rest to the brim ten times a second
 * under a writer that syncs. Blocks that wait for the commit (pinned) come back. To count these two would extend half-empty filesystems.
 * Measured on 1 and 2 GiB under small files at full speed: it reported 2 to 70 s before the kernel's ENOSPC.
 */
export interface MetadataRoom {
  /** False: the next file may fail. `deviceBytes`: what the devices have together at this moment. */
  isLeft(deviceBytes: number, readNumber: (file: number) => number): boolean;
  /** Whether data takes more of the devices than it has bytes, at this moment. */
  dataHasCopies(readNumber: (file: number) => number): boolean;
  close(): void;
}

/** Keeps its files open, so that reading waits for no directory lookup. */
function openMetadataRoom(allocationDirectory: string): MetadataRoom {
  const number = (name: string): number => Number(readFileSync(join(allocationDirectory, name), "utf8"));
  const copies = number("metadata/disk_total") / number("metadata/total_bytes");
  const systemBytes = number("system/disk_total");
  const file = (name: string): number => openSync(join(allocationDirectory, name), "r");
  const [dataOnDisk, data, total] = [file("data/disk_total"), file("data/total_bytes"), file("metadata/total_bytes")];
  const kept = ["metadata/bytes_used", "metadata/bytes_reserved", "global_rsv_size"].map(file);
  return {
    dataHasCopies: (readNumber) => readNumber(dataOnDisk) > readNumber(data),
    isLeft: (deviceBytes, readNumber) => {
      const totalBytes = readNumber(total);
      const unallocatedBytes = deviceBytes - readNumber(dataOnDisk) - totalBytes * copies - systemBytes;
      if (unallocatedBytes >= CHUNK_ROOM_BYTES) return true;
      const keptBytes = kept.reduce((sum, each) => sum + readNumber(each), 0);
      const leftBytes = totalBytes - keptBytes + Math.max(0, unallocatedBytes) / copies;
      return leftBytes >= Math.max(ROOM_MIN_BYTES, totalBytes * ROOM_FRACTION);
    },
    close: () => {
      for (const each of [dataOnDisk, data, total, ...kept.splice(0)]) closeSync(each);
    },
  };
}
