// What was measured of a mounted filesystem: one type from the thread that reads it to the policy-engine's decision, and how it travels.
// What a field's absence means, and which figures cannot be, the policy-engine says (facts/measurements.ts).
import type { Sample } from "./gen/tidemark/samples/v1/samples.ts";

/** One look: its figures belong together and are never combined with another's. Byte figures as in docs/glossary.md. */
export interface Reading {
  /** Unix milliseconds, by the clock of the node (or of Prometheus): it orders readings, and says nothing of their age. */
  readonly sampledAtMs: number;
  /** The same instant on the monotonic clock of the process that has the reading. */
  readonly takenMs: number;
  readonly capacityBytes: number;
  /** On btrfs without what writers have reserved. */
  readonly availableBytes: number;
  /** 0: unlimited. */
  readonly inodesTotal: number;
  readonly inodesUsed: number;
  /** Of btrfs (data-profiles.ts): statfs divides the devices' bytes by their copies. */
  readonly dataProfiles: number;
}

/** With what the looks before it show. */
export interface SampledReading extends Reading {
  /** Over the last seconds; negative when usage falls. */
  readonly growthBytesPerSecond: number;
  /** The writer's highest rate of the last 60 s. */
  readonly peakWriteBytesPerSecond: number;
}

type Figures = Omit<SampledReading, "takenMs">;

/** As it goes to the policy-engine, with what is known of its volume. */
export function writeSample(reading: SampledReading, ofVolume: Omit<Sample, keyof Figures>): Sample {
  // Field by field: this runs for each sample, and what is spread becomes a slow object of twenty times the bytes.
  return {
    volumeHandle: ofVolume.volumeHandle,
    sizeBytes: ofVolume.sizeBytes,
    operationInProgress: ofVolume.operationInProgress,
    lastOperationEndedAtMs: ofVolume.lastOperationEndedAtMs,
    ioUtilizationRatio: ofVolume.ioUtilizationRatio,
    nodeFreeBytes: ofVolume.nodeFreeBytes,
    sampledAtMs: reading.sampledAtMs,
    capacityBytes: reading.capacityBytes,
    availableBytes: reading.availableBytes,
    inodesTotal: reading.inodesTotal,
    inodesUsed: reading.inodesUsed,
    dataProfiles: reading.dataProfiles,
    growthBytesPerSecond: reading.growthBytesPerSecond,
    peakWriteBytesPerSecond: reading.peakWriteBytesPerSecond,
  };
}

/** `takenMs`: when it arrived. */
export function readSample(sample: Sample, takenMs: number): SampledReading {
  return {
    takenMs,
    sampledAtMs: sample.sampledAtMs,
    capacityBytes: sample.capacityBytes,
    availableBytes: sample.availableBytes,
    inodesTotal: sample.inodesTotal,
    inodesUsed: sample.inodesUsed,
    dataProfiles: sample.dataProfiles,
    growthBytesPerSecond: sample.growthBytesPerSecond,
    peakWriteBytesPerSecond: sample.peakWriteBytesPerSecond,
  };
}
