// Round numbers for axes. Pure.
import { GIB, MIB } from "../../../src/contracts/quantities/quantity.ts";

const BYTE_STEPS = [128 * MIB, 256 * MIB, 512 * MIB, GIB, 2 * GIB, 4 * GIB, 8 * GIB];
const SECOND_STEPS = [5, 10, 15, 30, 60, 120];

/** Multiples of a round step from 0 up to the first at or over `maxBytes`: at most `count` steps. */
export function byteTicks(maxBytes: number, count: number): number[] {
  const step = BYTE_STEPS.find((candidate) => maxBytes / candidate <= count) ?? Math.ceil(maxBytes / count / GIB) * GIB;
  const steps = Math.max(1, Math.ceil(maxBytes / step));
  return Array.from({ length: steps + 1 }, (_, index) => index * step);
}

/** Seconds of the time axis, within the span. */
export function secondTicks(spanMs: number, count: number): number[] {
  const seconds = spanMs / 1000;
  const step = SECOND_STEPS.find((candidate) => seconds / candidate <= count) ?? Math.ceil(seconds / count);
  return Array.from({ length: Math.floor(seconds / step) + 1 }, (_, index) => index * step);
}
