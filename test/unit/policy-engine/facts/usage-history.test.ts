import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { UsageHistory } from "../../../../src/policy-engine/facts/usage-history.ts";
import { NOW_MS } from "../../../builders/facts.ts";
import { property } from "../../../harness/property.ts";

// Generous: thousands of decisions are made on a machine that does other things, too.
const SECOND_MS = 1000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const missing = expect.objectContaining({ missing: expect.any(String) });

interface Sample {
  atMs: number;
  usedBytes: number;
}

function recorded(samples: readonly Sample[], intervalMs = SECOND_MS): UsageHistory {
  const history = new UsageHistory();
  for (const { atMs, usedBytes } of samples) history.record(atMs, usedBytes, intervalMs, atMs);
  return history;
}

/** One sample an interval up to NOW_MS, the oldest first. */
function every(intervalMs: number, used: readonly number[]): Sample[] {
  return used.map((usedBytes, i) => ({ atMs: NOW_MS - (used.length - 1 - i) * intervalMs, usedBytes }));
}

const constant = (count: number, usedBytes = 5): number[] => Array.from({ length: count }, () => usedBytes);

describe("the usage history", () => {
  it("knows the peak of a window, and forgets it when the window has passed", () => {
    const history = recorded(every(SECOND_MS, [9, 3, 7, 2, 2, 2, 2, 2, 2, 2]));
    expect(history.maxUsedBytes(9 * SECOND_MS, NOW_MS)).toBe(9);
    expect(history.maxUsedBytes(8 * SECOND_MS, NOW_MS)).toBe(7);
    expect(history.maxUsedBytes(6 * SECOND_MS, NOW_MS)).toBe(2);
  });

  it("says what is missing before it has seen the whole window", () => {
    const history = recorded(every(SECOND_MS, constant(30)));
    expect(history.maxUsedBytes(30 * SECOND_MS, NOW_MS)).toBe(5);
    expect(history.maxUsedBytes(60 * SECOND_MS, NOW_MS)).toEqual({
      missing: "52% of the last 1m was not measured (at most 5% may be missing)",
    });
    expect(new UsageHistory().maxUsedBytes(SECOND_MS, NOW_MS)).toEqual(missing);
  });

  it("takes three intervals without a sample for no gap, and more for one", () => {
    const before = every(SECOND_MS, constant(60)).map(({ atMs, usedBytes }) => ({
      atMs: atMs - 4 * SECOND_MS,
      usedBytes,
    }));
    expect(recorded([...before, { atMs: NOW_MS - SECOND_MS, usedBytes: 5 }]).maxUsedBytes(60 * SECOND_MS, NOW_MS)).toBe(
      5,
    );
    expect(recorded([...before, { atMs: NOW_MS, usedBytes: 5 }]).maxUsedBytes(60 * SECOND_MS, NOW_MS)).toEqual(missing);
  });

  it("counts silence up to now as a gap", () => {
    const history = recorded(every(SECOND_MS, constant(60)));
    expect(history.maxUsedBytes(50 * SECOND_MS, NOW_MS + 3 * SECOND_MS)).toBe(5);
    expect(history.maxUsedBytes(50 * SECOND_MS, NOW_MS + 4 * SECOND_MS)).toEqual(missing);
  });

  it("lives with gaps of 5% of the window", () => {
    const samples = every(SECOND_MS, constant(601));
    const withGap = (lostSamples: number) => recorded(samples.filter((_, i) => i < 300 || i >= 300 + lostSamples));
    expect(withGap(29).maxUsedBytes(600 * SECOND_MS, NOW_MS)).toBe(5);
    expect(withGap(30).maxUsedBytes(600 * SECOND_MS, NOW_MS)).toEqual(missing);
  });

  it("leaves samples of a running operation out, and takes them for no gap", () => {
    const history = recorded(
      every(SECOND_MS, constant(60)).map((sample) => ({ ...sample, atMs: sample.atMs - 30 * SECOND_MS })),
    );
    for (let atMs = NOW_MS - 29 * SECOND_MS; atMs <= NOW_MS; atMs += SECOND_MS) history.skip(atMs, SECOND_MS, atMs);
    expect(history.maxUsedBytes(60 * SECOND_MS, NOW_MS)).toBe(5);
  });

  it("ignores what is impossible, out of order or from the future", () => {
    const history = recorded(every(SECOND_MS, constant(60)));
    for (const usedBytes of [Number.NaN, -1, Number.POSITIVE_INFINITY])
      history.record(NOW_MS + 1, usedBytes, SECOND_MS, NOW_MS + 1);
    history.record(NOW_MS - SECOND_MS, 99, SECOND_MS, NOW_MS);
    history.record(NOW_MS + HOUR_MS, 99, SECOND_MS, NOW_MS);
    history.record(Number.NaN, 99, SECOND_MS, NOW_MS);
    expect(history.maxUsedBytes(30 * SECOND_MS, NOW_MS)).toBe(5);
    history.record(NOW_MS + SECOND_MS, 6, SECOND_MS, NOW_MS + SECOND_MS);
    expect(history.maxUsedBytes(30 * SECOND_MS, NOW_MS + SECOND_MS)).toBe(6);
  });

  it("is filled up with hours from before it was started", () => {
    const history = recorded([{ atMs: NOW_MS, usedBytes: 5 }]);
    const hours = Array.from({ length: 24 }, (_, i) => ({
      hourStartMs: NOW_MS - (i + 1) * HOUR_MS,
      usedBytes: 10 + i,
    }));
    history.backfill(hours, NOW_MS);
    expect(history.maxUsedBytes(DAY_MS, NOW_MS)).toBe(33);
    expect(history.maxUsedBytes(6 * HOUR_MS, NOW_MS)).toBe(16);
    expect(history.maxUsedBytes(7 * DAY_MS, NOW_MS)).toEqual(missing);
  });

  it("measures on where an hour ends after now, and no sample was there before", () => {
    const history = new UsageHistory();
    history.backfill([{ hourStartMs: NOW_MS - HOUR_MS / 2, usedBytes: 10 }], NOW_MS);
    history.record(NOW_MS + SECOND_MS, 99, SECOND_MS, NOW_MS + SECOND_MS);
    expect(history.maxUsedBytes(HOUR_MS / 2, NOW_MS + SECOND_MS)).toBe(99);
  });

  it("takes hours that Prometheus does not know for a gap", () => {
    const history = recorded([{ atMs: NOW_MS, usedBytes: 5 }]);
    const hours = Array.from({ length: 24 }, (_, i) => ({ hourStartMs: NOW_MS - (i + 1) * HOUR_MS, usedBytes: 10 }));
    history.backfill(
      hours.filter((_, i) => i !== 10 && i !== 11),
      NOW_MS,
    );
    expect(history.maxUsedBytes(DAY_MS, NOW_MS)).toEqual(missing);
    expect(history.maxUsedBytes(10 * HOUR_MS, NOW_MS)).toBe(10);
  });

  it("keeps its own samples when hours are put in front of them", () => {
    const history = recorded(every(SECOND_MS, [...constant(30, 50), ...constant(30, 4)]));
    const hours = Array.from({ length: 2 }, (_, i) => ({ hourStartMs: NOW_MS - (i + 1) * HOUR_MS, usedBytes: 20 }));
    history.backfill(hours, NOW_MS);
    expect(history.maxUsedBytes(HOUR_MS, NOW_MS)).toBe(50);
    expect(history.maxUsedBytes(10 * SECOND_MS, NOW_MS)).toBe(4);
  });

  it("keeps a single step of a volume that only grows, and a bounded number of any other", () => {
    const growing = recorded(
      every(
        SECOND_MS,
        Array.from({ length: 5000 }, (_, i) => i),
      ),
    );
    expect(growing.length).toBe(1);
    const falling = recorded(
      every(
        250,
        Array.from({ length: 100_000 }, (_, i) => 100_000 - i),
      ),
    );
    expect(falling.length).toBeLessThan(2 * (600 + 168));
    const gappy = recorded(every(HOUR_MS, constant(500)), SECOND_MS);
    expect(gappy.length).toBeLessThan(2 + 64);
  });

  it("says no less than the true peak of a volume that got emptier for hours, whatever was thinned out", () => {
    const intervalMs = 20 * SECOND_MS;
    const used = Array.from({ length: 1000 }, (_, i) => 1000 - i);
    const history = recorded(every(intervalMs, used), intervalMs);
    for (let back = 1; back < used.length; back += 1)
      expect(history.maxUsedBytes(back * intervalMs, NOW_MS)).toBeGreaterThanOrEqual(back + 1);
  });

  // What each sample is used for and when it comes follows from one number: of a thousand separate ones a failure would shrink for minutes.
  property(
    "never says less than the true peak, and no more than that of the window and the hour before it",
    { runs: 500, reaches: { "a peak that is known": 0.3, "one of more than ten minutes": 0.1 } },
    [
      fc.integer({ min: 2, max: 1000 }),
      fc.nat(),
      // Falling use is what leaves steps to thin out.
      fc.constantFrom(0, 10, 500, 1000),
      fc.integer({ min: 1, max: 7200 }),
    ],
    (reach, count, noise, fallBytes, windowSeconds) => {
      let atMs = NOW_MS;
      const samples = Array.from({ length: count }, (_, i) => {
        atMs += (1 + (noiseOf(noise, 2 * i) % 20)) * SECOND_MS;
        return { atMs, usedBytes: (count - i) * fallBytes + (noiseOf(noise, 2 * i + 1) % 1000) };
      });
      const history = recorded(samples, 20 * SECOND_MS);
      const windowMs = windowSeconds * SECOND_MS;
      const peak = history.maxUsedBytes(windowMs, atMs);
      if (typeof peak !== "number") return;
      reach("a peak that is known");
      if (windowMs > 600 * SECOND_MS) reach("one of more than ten minutes");
      const trueMax = (spanMs: number) =>
        Math.max(...samples.filter((one) => one.atMs >= atMs - spanMs).map((one) => one.usedBytes));
      expect(peak).toBeGreaterThanOrEqual(trueMax(windowMs));
      expect(peak).toBeLessThanOrEqual(trueMax(windowMs + (windowMs > 600 * SECOND_MS ? HOUR_MS : SECOND_MS)));
    },
  );
});

/** A number that looks random, and is the same each time: mulberry32's mixing. */
function noiseOf(noise: number, index: number): number {
  const state = (noise + Math.imul(index + 1, 0x6d2b79f5)) | 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return (mixed ^ (mixed >>> 14)) >>> 0;
}
