import { describe, expect, it } from "@jest/globals";
import { findCrossings } from "../../../../demo/show/script/crossings.ts";
import { endedOperation, spacePoint } from "../../../builders/run-log.ts";

describe("crossings", () => {
  it("last from the first sample over the threshold to the first with a larger capacity", () => {
    const points = [
      spacePoint(0, 1000, 700),
      spacePoint(10, 1000, 800),
      spacePoint(15, 1000, 810),
      spacePoint(45, 1400, 815),
    ];
    expect(findCrossings(points, [], 0.8)).toEqual([
      { atMs: 10, durationMs: 35, betweenSamples: false, duringShrink: false },
    ]);
  });

  it("that no sample saw count from the last sample under the threshold, and say so", () => {
    const points = [spacePoint(0, 1000, 700), spacePoint(10, 1000, 790), spacePoint(35, 1400, 810)];
    expect(findCrossings(points, [], 0.8)).toEqual([
      { atMs: 10, durationMs: 25, betweenSamples: true, duringShrink: false },
    ]);
  });

  it("are none where it grew before use could have reached the threshold", () => {
    const points = [spacePoint(0, 1000, 700), spacePoint(10, 1000, 790), spacePoint(35, 1400, 799)];
    expect(findCrossings(points, [], 0.8)).toEqual([]);
  });

  it("are not counted when deletions ended them", () => {
    const points = [spacePoint(0, 1000, 850), spacePoint(10, 1000, 300), spacePoint(20, 1400, 300)];
    expect(findCrossings(points, [], 0.8)).toEqual([]);
  });

  it("begin anew when one extend was not enough", () => {
    const points = [spacePoint(0, 1000, 900), spacePoint(10, 1050, 900), spacePoint(30, 1400, 900)];
    expect(findCrossings(points, [], 0.8)).toMatchObject([
      { atMs: 0, durationMs: 10 },
      { atMs: 10, durationMs: 20 },
    ]);
  });

  it("say when a shrink was under way", () => {
    const points = [spacePoint(100, 1000, 850), spacePoint(900, 1400, 850)];
    const shrink = endedOperation("Shrink", 2000, 1000, { startedAtMs: 50, endedAtMs: 500, outcome: "Cancelled" });
    expect(findCrossings(points, [shrink], 0.8)).toMatchObject([{ duringShrink: true }]);
  });
});
