// How readings travel from the sampling thread to the main one: rows of numbers in one array, so that neither side
// allocates an object per sample on the way. The rows' columns are known here only.

/** One reading of one watched filesystem, as the sampling thread saw it. */
export interface SlotReading {
  readonly slot: number;
  readonly sampledAtMs: number;
  readonly takenMs: number;
  readonly capacityBytes: number;
  readonly availableBytes: number;
  readonly inodesTotal: number;
  readonly inodesUsed: number;
  readonly dataProfiles: number;
  readonly growthBytesPerSecond: number;
  readonly peakWriteBytesPerSecond: number;
}

const COLUMNS = [
  "slot",
  "sampledAtMs",
  "takenMs",
  "capacityBytes",
  "availableBytes",
  "inodesTotal",
  "inodesUsed",
  "dataProfiles",
  "growthBytesPerSecond",
  "peakWriteBytesPerSecond",
] as const satisfies readonly (keyof SlotReading)[];

export function packReadings(readings: readonly SlotReading[]): Float64Array<ArrayBuffer> {
  const rows = new Float64Array(readings.length * COLUMNS.length);
  readings.forEach((reading, row) => {
    COLUMNS.forEach((column, index) => {
      rows[row * COLUMNS.length + index] = reading[column];
    });
  });
  return rows;
}

export function unpackReadings(rows: Float64Array): SlotReading[] {
  const readings: SlotReading[] = [];
  for (let start = 0; start + COLUMNS.length <= rows.length; start += COLUMNS.length) {
    const reading = {} as Record<keyof SlotReading, number>;
    COLUMNS.forEach((column, index) => {
      reading[column] = rows[start + index] ?? Number.NaN;
    });
    readings.push(reading);
  }
  return readings;
}
