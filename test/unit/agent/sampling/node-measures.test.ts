import { describe, expect, it } from "@jest/globals";
import { recordWithLayout } from "../../../../src/agent/gather/layout-record.ts";
import { isRecent, startNodeMeasurer, wireSample } from "../../../../src/agent/sampling/node-measures.ts";
import { newVolumeState } from "../../../../src/agent/volumes/volume-state.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { systemClock } from "../../../../src/platform/process/clock.ts";
import { createLogger } from "../../../../src/platform/process/log.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { buildSampledReading } from "../../../builders/sampled-reading.ts";
import { buildSpanLayout } from "../../../builders/span-layout.ts";
import { eventually } from "../../../harness/wait-for.ts";

const log = createLogger("test", "silent");
const reading = buildSampledReading();
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

  it.each([
    ["it was read after that", 5000, "2026-01-01T00:00:00.040Z", Date.parse("2026-01-01T00:00:00.040Z")],
    ["it was read after that, on whatever date", 5000, "2030-01-01T00:00:00.000Z", Date.parse("2030-01-01T00:00:00Z")],
    ["it was read before that, on whatever date", 4999, "2020-01-01T00:00:00.000Z", 0],
  ])("names the operation that ended last where %s", (_what, takenMs, endedAt, named) => {
    const lastOperation = {
      kind: "Extend",
      from: "1Gi",
      to: "2Gi",
      reached: "2Gi",
      outcome: "Succeeded",
      epoch: 1,
    } as const;
    const record = { ...state.record, lastOperation: { ...lastOperation, startedAt: endedAt, endedAt } };
    const one = { ...state, record, operationEndedMs: 5000, reading: { ...reading, takenMs } };
    const sample = wireSample(one, { freeBytes: GIB, ioUtilizationRatio: 0 });
    expect(sample?.lastOperationEndedAtMs).toBe(named);
    expect(sample).not.toHaveProperty("takenMs");
  });

  it("names none where none has ended", () => {
    expect(wireSample(state, { freeBytes: GIB, ioUtilizationRatio: 0 })?.lastOperationEndedAtMs).toBe(0);
  });

  it("goes to a new stream only while its reading is recent: an engine counts its age from when it comes", () => {
    expect([isRecent(undefined, 0), isRecent(reading, 10_000), isRecent(reading, 10_001)]).toEqual([
      false,
      true,
      false,
    ]);
  });

  it("is made of a span all the same: the node's own disk is no bound for it", () => {
    const span = { ...newVolumeState(recordWithLayout(buildSpanLayout(), undefined), true), reading, sizeBytes: GIB };
    const { nodeFreeBytes = 0 } = wireSample(span, { freeBytes: undefined, ioUtilizationRatio: 0 }) ?? {};
    expect(nodeFreeBytes).toBeGreaterThan(1000 * GIB);
  });
});
