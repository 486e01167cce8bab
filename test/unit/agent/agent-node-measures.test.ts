import { describe, expect, it } from "@jest/globals";
import { recordWithLayout } from "../../../src/agent/layout-record.ts";
import { startNodeMeasurer } from "../../../src/agent/node-measures.ts";
import { newVolumeState } from "../../../src/agent/volume-state.ts";
import { wireSample } from "../../../src/agent/wire-sample.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { createLogger } from "../../../src/process/log.ts";
import { GIB } from "../../../src/units/quantity.ts";
import { buildLayout } from "../../builders/filesystem-layout.ts";
import { buildSpanLayout } from "../../builders/span-layout.ts";
import { eventually } from "../../fakes/eventually.ts";

const log = createLogger("test", "silent");
const reading = {
  ...{ sampledAtMs: 1, capacityBytes: GIB, availableBytes: GIB / 2, inodesTotal: 0, inodesUsed: 0, dataProfiles: 0 },
  ...{ growthBytesPerSecond: 0, peakWriteBytesPerSecond: 0 },
};
const state = { ...newVolumeState(recordWithLayout(buildLayout(), undefined), true), reading, sizeBytes: GIB };

describe("a sample", () => {
  it("says how much is free where members are made", async () => {
    const measurer = startNodeMeasurer({ freeBytes: async () => 7 * GIB }, new Map(), systemClock, log);
    await eventually("the measure", () => measurer.of(state).freeBytes !== undefined);
    expect(wireSample(state, measurer.of(state))).toMatchObject({ nodeFreeBytes: 7 * GIB });
    measurer.stop();
  });

  it("is not made while that is unknown: 0 would say that the node is full", async () => {
    const failing = () => Promise.reject(new Error("EIO"));
    const measurer = startNodeMeasurer({ freeBytes: failing }, new Map(), systemClock, log);
    await Promise.resolve();
    expect(wireSample(state, measurer.of(state))).toBeUndefined();
    measurer.stop();
  });

  it("is made of a span all the same: the node's own disk is no bound for it", () => {
    const span = { ...newVolumeState(recordWithLayout(buildSpanLayout(), undefined), true), reading, sizeBytes: GIB };
    const { nodeFreeBytes = 0 } = wireSample(span, { freeBytes: undefined, ioUtilizationRatio: 0 }) ?? {};
    expect(nodeFreeBytes).toBeGreaterThan(1000 * GIB);
  });
});
