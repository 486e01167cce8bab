import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { GrowthHistory, growthHistoryFor } from "../../../../src/policy-engine/facts/growth-history.ts";
import { property } from "../../../harness/property.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** What was recorded of this use, a sample each 15 s, up to `untilMs`. */
function recorded(use: (atMs: number) => number, untilMs: number, windowsMs = [HOUR_MS], fromMs = 0): GrowthHistory {
  const history = new GrowthHistory(windowsMs);
  for (let atMs = fromMs; atMs <= untilMs; atMs += 15_000) history.record(atMs, Math.round(use(atMs)));
  return history;
}

const bytes = (per: number) => (atMs: number) => 10 * GIB + (per * atMs) / 1000;

describe("growth over an hour", () => {
  it.each<[string, (atMs: number) => number, number]>([
    ["is what is written in a second on average, of a volume that fills evenly", bytes(MIB), MIB],
    ["is negative of one from which files are deleted", bytes(-MIB), -MIB],
    ["is 0 of one that has the same use before and after a load of ten minutes", spike(50, 60), 0],
    ["is 0 of a compaction, which takes room and gives it back", spike(83, 88), 0],
    ["is 0 of one jump, however large", (atMs) => (atMs < 90 * MINUTE_MS ? 1 : 50) * GIB, 0],
    ["is 0 of a load that has only begun", (atMs) => bytes(100 * MIB)(Math.max(0, atMs - 110 * MINUTE_MS)), 0],
    ["is 0 once a load of half an hour has been over for five minutes", ramp(80, 114), 0],
  ])("%s", (_what, use, expected) => {
    expect(recorded(use, 2 * HOUR_MS).bytesPerSecond(HOUR_MS, 2 * HOUR_MS)).toBeCloseTo(expected, -1);
  });

  it.each<[string, number, RegExp]>([
    ["before anything is measured", -1, /the last 1h, of which 100% was not/],
    ["after a quarter of an hour", 15, /of which 75% was not measured/],
  ])("is not known %s", (_when, minutes, missing) => {
    const history = recorded(bytes(MIB), minutes * MINUTE_MS);
    expect(history.bytesPerSecond(HOUR_MS, Math.max(0, minutes) * MINUTE_MS)).toMatchObject({
      missing: expect.stringMatching(missing),
    });
  });

  it("is not known of a volume that was not sampled for the last half hour", () => {
    const history = recorded(bytes(MIB), HOUR_MS);
    expect(history.bytesPerSecond(HOUR_MS, 1.5 * HOUR_MS)).toHaveProperty("missing");
  });

  it("takes no figure that is impossible, and none that is older than the last", () => {
    const history = recorded(bytes(MIB), HOUR_MS);
    for (const [atMs, used] of [
      [2 * HOUR_MS, Number.NaN],
      [2 * HOUR_MS, -1],
      [0, 9 * GIB],
      [Number.NaN, GIB],
    ] as const)
      history.record(atMs, used);
    expect(history.bytesPerSecond(HOUR_MS, HOUR_MS)).toBeCloseTo(MIB, -1);
  });
});

function spike(fromMinute: number, toMinute: number): (atMs: number) => number {
  return (atMs) => (atMs >= fromMinute * MINUTE_MS && atMs < toMinute * MINUTE_MS ? 60 : 20) * GIB;
}

function ramp(fromMinute: number, toMinute: number): (atMs: number) => number {
  return (atMs) =>
    bytes(30 * MIB)(Math.min(Math.max(0, atMs - fromMinute * MINUTE_MS), (toMinute - fromMinute) * MINUTE_MS));
}

describe("what is remembered for growth", () => {
  it("goes on where a policy reads another window as well: that one is known once it was measured", () => {
    const before = recorded(bytes(MIB), HOUR_MS);
    const after = growthHistoryFor(before, [HOUR_MS, 2 * HOUR_MS]);
    expect(after?.bytesPerSecond(HOUR_MS, HOUR_MS)).toBeCloseTo(MIB, -1);
    expect(after?.bytesPerSecond(2 * HOUR_MS, HOUR_MS)).toHaveProperty("missing");
    for (let atMs = HOUR_MS; atMs <= 2 * HOUR_MS; atMs += 15_000) after?.record(atMs, Math.round(bytes(MIB)(atMs)));
    expect(after?.bytesPerSecond(2 * HOUR_MS, 2 * HOUR_MS)).toBeCloseTo(MIB, -1);
  });

  it("has no more than a shorter window has left of it", () => {
    const before = recorded(bytes(MIB), 24 * HOUR_MS);
    expect(growthHistoryFor(before, [6 * HOUR_MS])?.bytesPerSecond(6 * HOUR_MS, 24 * HOUR_MS)).toHaveProperty(
      "missing",
    );
  });

  it("is nothing where a policy reads none, and the same where it reads the same", () => {
    const before = recorded(bytes(MIB), HOUR_MS);
    expect(growthHistoryFor(before, [])).toBeUndefined();
    expect(growthHistoryFor(before, [HOUR_MS])).toBe(before);
  });

  property(
    "is Theil's and Sen's median of all pairs, the lowest of the whole window, its newest third and twelfth, of up to 64 points",
    { runs: 300, reaches: { "a trend": 0.9, "one of the newest part": 0.2 } },
    [fc.array(fc.integer({ min: 0, max: 4 * GIB }), { minLength: 12, maxLength: 64 })],
    (reach, uses) => {
      const spacingMs = HOUR_MS / uses.length;
      const history = new GrowthHistory([HOUR_MS]);
      const points = uses.map((used, index) => [Math.ceil(index * spacingMs), used] as const);
      for (const [atMs, used] of points) history.record(atMs, used);
      const whole = byHand(points);
      const partOf = (ratio: number) => points.filter(([atMs]) => atMs >= HOUR_MS * (1 - ratio));
      const newest = Math.min(
        ...[1 / 3, 1 / 12]
          .map(partOf)
          .filter(({ length }) => length > 1)
          .map(byHand),
      );
      reach("a trend");
      if (newest < whole) reach("one of the newest part");
      expect(history.bytesPerSecond(HOUR_MS, HOUR_MS)).toBe(Math.min(whole, newest));
    },
  );
});

function byHand(points: readonly (readonly [atMs: number, used: number])[]): number {
  const slopes = points.flatMap(([fromMs, before], index) =>
    points.slice(index + 1).map(([toMs, after]) => (after - before) / ((toMs - fromMs) / 1000)),
  );
  return slopes.toSorted((a, b) => a - b)[Math.floor((slopes.length - 1) / 2)] ?? Number.NaN;
}
