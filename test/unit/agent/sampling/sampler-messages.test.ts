// Readings between the sampling thread and the main one.
import { expect, it } from "@jest/globals";
import { packReadings, type SlotReading, unpackReadings } from "../../../../src/agent/sampling/sampler-messages.ts";
import type { SampledReading } from "../../../../src/contracts/reading.ts";
import { buildSampledReading } from "../../../builders/sampled-reading.ts";

/** Of figures that are all different, in every field that a reading has. */
function distinctReading(first: number): SampledReading {
  const names = Object.keys(buildSampledReading());
  return buildSampledReading(Object.fromEntries(names.map((name, index) => [name, first + index + 0.5])));
}

it("every figure of every reading reaches the main thread, in order and under its own name", () => {
  const readings: SlotReading[] = [
    { slot: 7, reading: distinctReading(100) },
    { slot: 0, reading: distinctReading(-200) },
  ];
  expect(unpackReadings(packReadings(readings))).toEqual(readings);
});

it("no reading is an empty message", () => {
  expect(unpackReadings(packReadings([]))).toEqual([]);
});
