import { expect, it } from "@jest/globals";
import { Sample } from "../../../src/contracts/gen/tidemark/samples/v1/samples.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { readSample, type SampledReading, writeSample } from "../../../src/contracts/reading.ts";

const READING: SampledReading = {
  sampledAtMs: Date.parse("2026-11-20T12:00:00.250Z"),
  takenMs: 1234.5,
  capacityBytes: 10 * GIB,
  availableBytes: 3 * GIB + 1,
  inodesTotal: 1000,
  inodesUsed: 7,
  dataProfiles: 5,
  growthBytesPerSecond: -0.5,
  peakWriteBytesPerSecond: 12.25,
};
const OF_VOLUME = {
  volumeHandle: "fs-1",
  sizeBytes: 11 * GIB,
  operationInProgress: true,
  lastOperationEndedAtMs: Date.parse("2026-11-20T11:59:00Z"),
  ioUtilizationRatio: 0.25,
  nodeFreeBytes: 100 * GIB,
};

it("a reading crosses the wire whole, but for the clock of the process that took it", () => {
  const sample = Sample.decode(Sample.encode(writeSample(READING, OF_VOLUME)).finish());
  expect(readSample(sample, 99)).toEqual({ ...READING, takenMs: 99 });
  expect(sample).toMatchObject(OF_VOLUME);
});
