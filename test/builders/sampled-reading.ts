// What a sampler has read of a filesystem of 1 GiB, half full, of which nothing is written.

import { GIB } from "../../src/contracts/quantities/quantity.ts";
import type { SampledReading } from "../../src/contracts/reading.ts";

export function buildSampledReading(change: Partial<SampledReading> = {}): SampledReading {
  return {
    sampledAtMs: 1,
    takenMs: 1,
    capacityBytes: GIB,
    availableBytes: GIB / 2,
    inodesTotal: 0,
    inodesUsed: 0,
    dataProfiles: 0,
    growthBytesPerSecond: 0,
    peakWriteBytesPerSecond: 0,
    ...change,
  };
}
