// Times of the last hour against a list that is sorted and searched each time.
import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { LastHour } from "../../../../../src/policy-engine/gather/rates/last-hour.ts";
import { property } from "../../../../harness/property.ts";

const HOUR_MS = 3_600_000;

describe("the times of the last hour", () => {
  it("say when the n-th last one was, however they came in", () => {
    const times = new LastHour();
    for (const atMs of [30, 10, 20]) times.add(atMs);
    expect([1, 2, 3, 4].map((n) => times.nthLast(n, 40))).toEqual([30, 20, 10, undefined]);
  });

  it("leave out what is an hour old", () => {
    const times = new LastHour();
    times.add(1000);
    expect(times.nthLast(1, 1000 + HOUR_MS - 1)).toBe(1000);
    expect(times.nthLast(1, 1000 + HOUR_MS)).toBeUndefined();
  });

  property(
    "are those that a plain list has, whatever is added and taken back",
    { runs: 300, reaches: { "one that is an hour old": 0.3 } },
    [
      fc.array(fc.record({ waitMs: fc.integer({ min: 0, max: 60_000 }), lateMs: fc.integer({ min: 0, max: 5000 }) }), {
        minLength: 150,
        maxLength: 400,
      }),
      fc.integer({ min: 1, max: 100 }),
    ],
    (reach, events, n) => {
      const times = new LastHour();
      let plain: number[] = [];
      let nowMs = 0;
      for (const [index, { waitMs, lateMs }] of events.entries()) {
        nowMs += waitMs;
        const atMs = nowMs - lateMs;
        times.add(atMs);
        plain.push(atMs);
        if (index % 7 === 0) {
          times.remove(atMs);
          plain.splice(plain.lastIndexOf(atMs), 1);
        }
      }
      if ((plain[0] ?? nowMs) <= nowMs - HOUR_MS) reach("one that is an hour old");
      plain = plain.filter((atMs) => atMs > nowMs - HOUR_MS).sort((a, b) => a - b);
      expect(times.nthLast(n, nowMs)).toBe(plain.at(-n));
    },
  );
});
