// What a sampler has read of a filesystem of 1 GiB, half full, of which nothing is written.
import type { SampledReading } from "../../src/agent/volumes/volume-state.ts";
import { GIB } from "../../src/units/quantity.ts";

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
