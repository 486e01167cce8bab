import { describe, expect, it } from "@jest/globals";
import { createRunLog } from "../../../../demo/show/run/run-log.ts";
import { averageCapacityBytes, percentiles, type RunFigures, summarize } from "../../../../demo/show/views/summary.ts";
import { summaryLines } from "../../../../demo/show/views/summary-view.ts";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { endedOperation, spacePoint, tideLog } from "../../../builders/run-log.ts";

const FIGURES: RunFigures = {
  storage: "real",
  fsType: "btrfs",
  nominalBytes: 10 * GIB,
  extendAtRatio: 0.8,
  writer: { writtenBytes: 2_500_000_000, liveBytes: 0, maxWriteStallMs: 312.7 },
  writerErrors: [],
  verification: { filesVerified: 50, bytesVerified: 400 * MIB, corruptFiles: 0, problems: [] },
};

describe("the summary", () => {
  it("counts extends, shrinks and cancelled shrinks of a run", () => {
    expect(summarize(tideLog(), FIGURES)).toMatchObject({
      extends: 5,
      shrinks: 2,
      cancelledShrinks: 1,
      fixedVolumeFullAtMs: 15_200,
      hostBytesMax: 1900 * MIB,
      hostBytesEnd: 500 * MIB,
      policyEditMs: 81,
      maxWriteStallMs: 313,
    });
  });

  it("counts a shrink from a quarter of the capacity on, and only when it succeeded", () => {
    const log = createRunLog();
    log.operations.push(
      endedOperation("Shrink", 1000, 751),
      endedOperation("Shrink", 1000, 750),
      endedOperation("Shrink", 1000, 500, { outcome: "FloorReached" }),
    );
    expect(summarize(log, FIGURES).shrinks).toBe(1);
  });

  it("does not count an extend that failed", () => {
    const log = createRunLog();
    log.operations.push(endedOperation("Extend", 1000, 1000, { outcome: "Failed" }));
    expect(summarize(log, FIGURES).extends).toBe(0);
  });

  it("lists changes as decisions, and no holds", () => {
    const log = createRunLog();
    const decision = { atMs: 1000.4, rule: "r", message: "m", fromBytes: GIB, toBytes: 2 * GIB };
    log.decisions.push(
      { ...decision, plan: "hold", reason: "CoolingDown" },
      { ...decision, plan: "extend", reason: "RuleFired" },
    );
    expect(summarize(log, FIGURES).decisions).toEqual([
      { atMs: 1000, plan: "extend", reason: "RuleFired", fromBytes: GIB, toBytes: 2 * GIB },
    ]);
  });

  it("keeps crossings during a shrink apart from the others", () => {
    const log = createRunLog();
    log.points.push(
      spacePoint(0, 1000, 900),
      spacePoint(20, 1400, 900),
      spacePoint(900, 1200, 1000),
      spacePoint(1500, 1600, 1000),
    );
    log.operations.push(
      endedOperation("Shrink", 1400, 1200, { startedAtMs: 800, endedAtMs: 1000, outcome: "Cancelled" }),
    );
    expect(summarize(log, FIGURES)).toMatchObject({
      crossingMs: { p50: 20, p99: 20, max: 20 },
      crossingDuringShrinkMs: { p50: 600, p99: 600, max: 600 },
    });
  });

  it("says null, not 0, where nothing was seen", () => {
    const summary = summarize(createRunLog(), FIGURES);
    expect(summary).toMatchObject({ crossingMs: null, fixedVolumeFullAtMs: null, policyEditMs: null });
  });

  it("finds the least available bytes", () => {
    const log = createRunLog();
    log.points.push(spacePoint(0, 1000, 100), spacePoint(10, 1000, 970), spacePoint(20, 2000, 970));
    expect(summarize(log, FIGURES).minAvailableBytes).toBe(30 * MIB);
  });

  it("shouts about corrupt files in its sentences", () => {
    const verification = { ...FIGURES.verification, corruptFiles: 2 };
    const lines = summaryLines(summarize(tideLog(), { ...FIGURES, verification }), "demo.svg");
    expect(lines.join("\n")).toContain("2 CORRUPT");
  });
});

describe("the average capacity", () => {
  it("weighs each size by the time it held", () => {
    const points = [spacePoint(0, 1000, 0), spacePoint(9000, 2000, 0), spacePoint(10_000, 2000, 0)];
    expect(averageCapacityBytes(points)).toBe(1100 * MIB);
  });

  it("is that of the only sample, and 0 of none", () => {
    expect(averageCapacityBytes([spacePoint(5, 7, 0)])).toBe(7 * MIB);
    expect(averageCapacityBytes([])).toBe(0);
  });
});

describe("percentiles", () => {
  it("are by nearest rank, whatever the order", () => {
    const values = Array.from({ length: 100 }, (_, index) => 100 - index);
    expect(percentiles(values)).toEqual({ p50: 50, p99: 99, max: 100 });
  });
});
