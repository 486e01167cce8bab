// What the main thread and the sampling thread say to each other. While the thread reads a filesystem, its place is 1 + the slot. Readings
// travel as rows of numbers in one array, so that neither side allocates an object per sample on the way; only this file knows the columns.

import type { SampledReading } from "../../contracts/reading.ts";
import type { ReadableMount } from "../storage/filesystem/mount-reader.ts";

/** A filesystem to sample; its slot stays the same over all threads. */
export interface Watched {
  readonly slot: number;
  readonly mountPath: string;
  readonly fsType: ReadableMount["fsType"];
  readonly fsid: string;
}

export type ToSamplingThread =
  | { readonly type: "watch"; readonly watched: Watched }
  | { readonly type: "forget"; readonly slot: number }
  /** Byte marks to look out for; 0: none. */
  | {
      readonly type: "guide";
      readonly slot: number;
      readonly nextExtendUsedBytes: number;
      readonly minAvailableBytes: number;
    }
  /** An operation began or ended; at its end one reading is taken at once. */
  | { readonly type: "operation"; readonly slot: number; readonly inProgress: boolean };

export type FromSamplingThread =
  | { readonly type: "readings"; readonly rows: Float64Array }
  | { readonly type: "unreadable"; readonly slot: number; readonly message: string };

/** One reading of one watched filesystem, as the sampling thread saw it. */
export interface SlotReading {
  readonly slot: number;
  readonly reading: SampledReading;
}

const COLUMN_OF: Readonly<Record<"slot" | keyof SampledReading, number>> = {
  slot: 0,
  sampledAtMs: 1,
  takenMs: 2,
  capacityBytes: 3,
  availableBytes: 4,
  inodesTotal: 5,
  inodesUsed: 6,
  dataProfiles: 7,
  growthBytesPerSecond: 8,
  peakWriteBytesPerSecond: 9,
};
const COLUMN_COUNT = Object.keys(COLUMN_OF).length;

export function packReadings(readings: readonly SlotReading[]): Float64Array<ArrayBuffer> {
  const rows = new Float64Array(readings.length * COLUMN_COUNT);
  let start = 0;
  for (const { slot, reading } of readings) {
    rows[start + COLUMN_OF.slot] = slot;
    packReading(rows, start, reading);
    start += COLUMN_COUNT;
  }
  return rows;
}

export function unpackReadings(rows: Float64Array): SlotReading[] {
  const readings: SlotReading[] = [];
  for (let start = 0; start + COLUMN_COUNT <= rows.length; start += COLUMN_COUNT)
    readings.push({ slot: rows[start + COLUMN_OF.slot] ?? Number.NaN, reading: readingAt(rows, start) });
  return readings;
}

// Field by field, here and below: this runs for each sample, and a loop over names costs ten times as much and makes slow objects.
function packReading(rows: Float64Array, start: number, reading: SampledReading): void {
  rows[start + COLUMN_OF.sampledAtMs] = reading.sampledAtMs;
  rows[start + COLUMN_OF.takenMs] = reading.takenMs;
  rows[start + COLUMN_OF.capacityBytes] = reading.capacityBytes;
  rows[start + COLUMN_OF.availableBytes] = reading.availableBytes;
  rows[start + COLUMN_OF.inodesTotal] = reading.inodesTotal;
  rows[start + COLUMN_OF.inodesUsed] = reading.inodesUsed;
  rows[start + COLUMN_OF.dataProfiles] = reading.dataProfiles;
  rows[start + COLUMN_OF.growthBytesPerSecond] = reading.growthBytesPerSecond;
  rows[start + COLUMN_OF.peakWriteBytesPerSecond] = reading.peakWriteBytesPerSecond;
}

function readingAt(rows: Float64Array, start: number): SampledReading {
  return {
    sampledAtMs: rows[start + COLUMN_OF.sampledAtMs] ?? Number.NaN,
    takenMs: rows[start + COLUMN_OF.takenMs] ?? Number.NaN,
    capacityBytes: rows[start + COLUMN_OF.capacityBytes] ?? Number.NaN,
    availableBytes: rows[start + COLUMN_OF.availableBytes] ?? Number.NaN,
    inodesTotal: rows[start + COLUMN_OF.inodesTotal] ?? Number.NaN,
    inodesUsed: rows[start + COLUMN_OF.inodesUsed] ?? Number.NaN,
    dataProfiles: rows[start + COLUMN_OF.dataProfiles] ?? Number.NaN,
    growthBytesPerSecond: rows[start + COLUMN_OF.growthBytesPerSecond] ?? Number.NaN,
    peakWriteBytesPerSecond: rows[start + COLUMN_OF.peakWriteBytesPerSecond] ?? Number.NaN,
  };
}
