import { describe, expect, it } from "@jest/globals";
import {
  INTERVAL_IN_OPERATION_MS,
  INTERVAL_MAX_MS,
  INTERVAL_MIN_MS,
  type SamplingFacts,
  samplingIntervalMs,
} from "../../../../src/agent/sampling/sampling-interval.ts";
import { MIB } from "../../../../src/contracts/quantities/quantity.ts";

const facts = (change: Partial<SamplingFacts> = {}): SamplingFacts => ({
  usedBytes: 500 * MIB,
  availableBytes: 500 * MIB,
  rateBytesPerSecond: 100 * MIB,
  nextExtendUsedBytes: 800 * MIB,
  minAvailableBytes: 50 * MIB,
  operationInProgress: false,
  ...change,
});

describe("the sampling interval", () => {
  it("is a fifth of the time to the next rule", () => {
    expect(samplingIntervalMs(facts())).toBeCloseTo(600);
  });

  it("follows minAvailable when that is nearer", () => {
    expect(samplingIntervalMs(facts({ minAvailableBytes: 400 * MIB }))).toBeCloseTo(200);
  });

  it("follows the end of the disk when no rule is known", () => {
    const change = { nextExtendUsedBytes: 0, minAvailableBytes: 0, availableBytes: 250 * MIB };
    expect(samplingIntervalMs(facts(change))).toBeCloseTo(500);
  });

  it("waits for what lies ahead, not for a rule that has been crossed", () => {
    expect(samplingIntervalMs(facts({ nextExtendUsedBytes: 400 * MIB, minAvailableBytes: 0 }))).toBeCloseTo(1000);
  });

  it("is never shorter than the shortest", () => {
    expect(samplingIntervalMs(facts({ nextExtendUsedBytes: 500 * MIB + 1 }))).toBe(INTERVAL_MIN_MS);
  });

  it.each([0, -5, Number.NaN])("is the longest when nobody writes (%d bytes per second)", (rateBytesPerSecond) => {
    expect(samplingIntervalMs(facts({ rateBytesPerSecond }))).toBe(INTERVAL_MAX_MS);
  });

  it("is fixed while an operation runs", () => {
    expect(samplingIntervalMs(facts({ operationInProgress: true, rateBytesPerSecond: 0 }))).toBe(
      INTERVAL_IN_OPERATION_MS,
    );
  });
});
