// Readings of a simulated filesystem: a plain directory of the node's own disk, and no mount, whose capacity is a number in a file next to
// it. The number is also what a writer that plays along (it cannot be made to) obeys.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { NO_DATA_PROFILES } from "../../../contracts/formulas/data-profiles.ts";
import { systemClock } from "../../../platform/process/clock.ts";
import type { FilesystemReading } from "../filesystem/mount-reader.ts";

const STAT_BLOCK_BYTES = 512;
/** What an empty filesystem uses. */
const OVERHEAD_BYTES = 16 * 2 ** 20;
/** Counting stops here: a simulated volume is for demonstrations, not for millions of files. */
const ENTRY_LIMIT = 100_000;

/** Next to the mount directory, there while the volume is staged; holds the capacity in bytes as decimal text. */
export function simulatedCapacityPath(mountPath: string): string {
  return `${mountPath}.tidemark-capacity`;
}

/** Undefined when nothing simulated is staged there. */
export function readSimulatedCapacity(mountPath: string): number | undefined {
  try {
    return Number(readFileSync(simulatedCapacityPath(mountPath), "utf8"));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

export function readSimulated(mountPath: string): FilesystemReading {
  const capacityBytes = readSimulatedCapacity(mountPath);
  if (capacityBytes === undefined) throw new Error(`${mountPath} is no longer staged`);
  const { usedBytes, inodesUsed } = simulatedUse(mountPath);
  return {
    sampledAtMs: systemClock.nowMs(),
    takenMs: systemClock.monotonicMs(),
    capacityBytes,
    availableBytes: Math.max(0, capacityBytes - usedBytes),
    inodesTotal: 0,
    inodesUsed,
    dataProfiles: NO_DATA_PROFILES,
    dataBytes: usedBytes,
    movesData: false,
  };
}

/** Allocated bytes of all files, and how many there are. Files that vanish during the count are left out. */
function simulatedUse(directory: string): { usedBytes: number; inodesUsed: number } {
  const waiting = [directory];
  let usedBytes = OVERHEAD_BYTES;
  let inodesUsed = 0;
  for (let path = waiting.pop(); path !== undefined && inodesUsed < ENTRY_LIMIT; path = waiting.pop()) {
    const stat = statSync(path, { throwIfNoEntry: false });
    if (stat === undefined) continue;
    inodesUsed += 1;
    if (stat.isDirectory()) waiting.push(...readdirSync(path).map((name) => join(path, name)));
    else usedBytes += stat.blocks * STAT_BLOCK_BYTES;
  }
  return { usedBytes, inodesUsed };
}
