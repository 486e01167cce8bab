import { describe, expect, it } from "@jest/globals";
import { decideNextTrim, type TrimFacts, trimDueAtMs } from "../../../../src/agent/decide/decide-next-trim.ts";

const HOUR_MS = 3_600_000;
const NOW_MS = 1_000 * HOUR_MS;
/** Of a volume whose own share of the time is the given part of 16. */
const handle = (sixteenths: number): string => `fs-0a1b2c3d-0000-4000-8000-0000${sixteenths.toString(16)}0000000`;
const facts = (change: Partial<TrimFacts> = {}): TrimFacts => ({
  handle: handle(8),
  everyMs: 24 * HOUR_MS,
  sinceMs: NOW_MS - 25.2 * HOUR_MS,
  wasTrimmed: true,
  notBeforeMs: 0,
  ...change,
});

describe("the next trim of a node", () => {
  it("is due when the time has passed since the last one, and its own share of a tenth of it", () => {
    expect(decideNextTrim([facts()], NOW_MS)).toBe(handle(8));
    expect(decideNextTrim([facts()], NOW_MS - 1)).toBeUndefined();
  });

  it("of a volume that was never trimmed is due at its own share of the time, so that one policy is no storm", () => {
    const never = [0, 4, 8, 12].map((share) => facts({ handle: handle(share), sinceMs: NOW_MS, wasTrimmed: false }));
    const dueHours = never.map((one) => (trimDueAtMs(one, NOW_MS) - NOW_MS) / HOUR_MS);
    expect(dueHours).toEqual([0, 6, 12, 18]);
  });

  it("is that of the volume that is overdue the longest, whatever the order", () => {
    const late = facts({ handle: handle(2), sinceMs: NOW_MS - 80 * HOUR_MS });
    const later = facts({ handle: handle(3), sinceMs: NOW_MS - 90 * HOUR_MS });
    const notYet = facts({ handle: handle(4), sinceMs: NOW_MS - HOUR_MS });
    expect(decideNextTrim([late, later, notYet], NOW_MS)).toBe(handle(3));
    expect(decideNextTrim([notYet, later, late], NOW_MS)).toBe(handle(3));
  });

  it("follows the policy's schedule of now, not of when it was trimmed last", () => {
    const everHour = facts({ sinceMs: NOW_MS - 2 * HOUR_MS, everyMs: HOUR_MS });
    expect(decideNextTrim([everHour], NOW_MS)).toBe(handle(8));
  });

  it("leaves a volume that gave way alone for a while, and takes another meanwhile", () => {
    const gaveWay = facts({ sinceMs: NOW_MS - 90 * HOUR_MS, notBeforeMs: NOW_MS + 1 });
    const other = facts({ handle: handle(2) });
    expect(decideNextTrim([gaveWay, other], NOW_MS)).toBe(handle(2));
    expect(decideNextTrim([gaveWay], NOW_MS)).toBeUndefined();
    expect(decideNextTrim([gaveWay], NOW_MS + 1)).toBe(handle(8));
  });

  it("does not wait for a clock that was far ahead at the last one", () => {
    expect(decideNextTrim([facts({ sinceMs: NOW_MS + 500 * HOUR_MS })], NOW_MS)).toBe(handle(8));
  });

  it("is none on a node without volumes", () => {
    expect(decideNextTrim([], NOW_MS)).toBeUndefined();
  });
});
