import { describe, expect, it } from "@jest/globals";
import { createGrowthTracker, type GrowthTracker } from "../../../../src/agent/sampling/growth.ts";
import { MIB } from "../../../../src/contracts/quantities/quantity.ts";

function feed(
  tracker: GrowthTracker,
  fromMs: number,
  toMs: number,
  stepMs: number,
  usedAt: (atMs: number) => number,
): void {
  for (let atMs = fromMs; atMs <= toMs; atMs += stepMs) tracker.observe(atMs, usedAt(atMs));
}

describe("the growth of a filesystem", () => {
  it("is 0 before there are two points", () => {
    const tracker = createGrowthTracker();
    tracker.observe(0, 100 * MIB);
    expect(tracker.growthBytesPerSecond()).toBe(0);
    expect(tracker.peakBytesPerSecond(0)).toBe(0);
  });

  it.each([25, 50, 200, 1000])("is the writer's rate with a sample every %d ms", (stepMs) => {
    const tracker = createGrowthTracker();
    feed(tracker, 0, 5000, stepMs, (atMs) => (atMs / 1000) * 60 * MIB);
    expect(tracker.growthBytesPerSecond()).toBeCloseTo(60 * MIB, 3);
  });

  it("is not moved by one odd sample", () => {
    const tracker = createGrowthTracker();
    feed(tracker, 0, 3000, 250, (atMs) => (atMs / 1000) * 10 * MIB + (atMs === 1500 ? 500 * MIB : 0));
    expect(tracker.growthBytesPerSecond()).toBeCloseTo(10 * MIB, 3);
  });

  it("is negative while the filesystem empties", () => {
    const tracker = createGrowthTracker();
    feed(tracker, 0, 3000, 500, (atMs) => 1000 * MIB - (atMs / 1000) * 20 * MIB);
    expect(tracker.growthBytesPerSecond()).toBeCloseTo(-20 * MIB, 3);
    expect(tracker.peakBytesPerSecond(3000)).toBe(0);
  });

  it("ends within seconds of the writer's end, while the peak stays for a minute", () => {
    const tracker = createGrowthTracker();
    feed(tracker, 0, 2000, 200, (atMs) => (atMs / 1000) * 100 * MIB);
    feed(tracker, 3000, 9000, 1000, () => 200 * MIB);
    expect(tracker.growthBytesPerSecond()).toBe(0);
    expect(tracker.peakBytesPerSecond(9000)).toBeCloseTo(100 * MIB, 3);
    feed(tracker, 10_000, 63_000, 1000, () => 200 * MIB);
    expect(tracker.peakBytesPerSecond(63_000)).toBe(0);
  });

  it("begins anew after an operation, with the peak kept", () => {
    const tracker = createGrowthTracker();
    feed(tracker, 0, 2000, 200, (atMs) => (atMs / 1000) * 100 * MIB);
    tracker.restart();
    tracker.observe(2200, 5000 * MIB);
    expect(tracker.growthBytesPerSecond()).toBe(0);
    expect(tracker.newestBytesPerSecond()).toBe(0);
    expect(tracker.peakBytesPerSecond(2200)).toBeCloseTo(100 * MIB, 3);
  });

  it("leaves out a sample that is not later than the last", () => {
    const tracker = createGrowthTracker();
    tracker.observe(1000, 0);
    tracker.observe(500, 900 * MIB);
    tracker.observe(2000, 10 * MIB);
    expect(tracker.growthBytesPerSecond()).toBeCloseTo(10 * MIB, 3);
  });
});
