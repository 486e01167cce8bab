// Whether a btrfs has room left for metadata. Deletions leave half-empty data chunks; when these hold all of the device, a writer
// of many small files gets ENOSPC while statfs shows gigabytes available. Only room for another metadata chunk mends that: a
// larger device. Read from the same sysfs directory as the pending bytes; it decides nothing.
//
// Counted is what stays: blocks in use, and the kernel's own reserve. Promises to writers (may_use) fill the rest to the brim ten times
// a second under a writer that syncs, and blocks that wait for the commit (pinned) come back: to count them would extend half-empty
// filesystems. Measured on 1 and 2 GiB under small files at full speed: told 2 to 70 s before the kernel's ENOSPC.
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { MIB } from "../../../units/quantity.ts";

/** With this much unallocated the kernel makes another chunk of any kind. */
const CHUNK_ROOM_BYTES = 512 * MIB;
/** What is left of the metadata chunks when the room counts as used up: a sixteenth of them, at least this. */
const ROOM_MIN_BYTES = 8 * MIB;
const ROOM_FRACTION = 1 / 16;

export interface MetadataRoom {
  /** False: the next file may fail. `deviceBytes`: what the devices have together at this moment. */
  isLeft(deviceBytes: number, readNumber: (file: number) => number): boolean;
  /** Whether data takes more of the devices than it has bytes, at this moment. */
  dataHasCopies(readNumber: (file: number) => number): boolean;
  close(): void;
}

/** Keeps its files open, so that reading waits for no directory lookup. */
export function openMetadataRoom(allocationDirectory: string): MetadataRoom {
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
