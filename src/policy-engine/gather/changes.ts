// When a volume's size was changed, for cooldowns and counts. A change is named by the time that its node gave it, which is what stands in
// the API server; how long ago it was the engine counts by its own clock, so that no clock that is wrong makes one of the future.
import type { Instant } from "../../process/clock.ts";
import { NO_CHANGES, type RecentChanges } from "../facts/facts.ts";

export interface Change {
  /** As its node dated it, Unix milliseconds. */
  readonly stampMs: number;
  /** On the engine's monotonic clock. */
  readonly atMs: number;
}

export interface Changes {
  readonly extends: Change[];
  readonly shrinks: Change[];
}

const DAY_MS = 86_400_000;

/** When what carries this date was, on the monotonic clock: as long ago as the wall clock says, and never later than now. */
export function datedAtMs(stampMs: number, { nowMs, monotonicMs }: Instant): number {
  return monotonicMs - Math.max(0, nowMs - stampMs);
}

/** Adds those that are not known yet, and forgets what is more than a day old. */
export function noteChanges(changes: Change[], noted: readonly Change[], { monotonicMs }: Instant): void {
  const known = new Set(changes.map(({ stampMs }) => stampMs));
  for (const change of noted) if (change.stampMs > 0 && !known.has(change.stampMs)) changes.push(change);
  changes.sort((a, b) => a.atMs - b.atMs);
  while ((changes[0]?.atMs ?? monotonicMs) < monotonicMs - DAY_MS) changes.shift();
}

export function recentChanges({ extends: extended, shrinks }: Changes): RecentChanges {
  if (extended.length + shrinks.length === 0) return NO_CHANGES;
  return { extendsAtMs: extended.map(({ atMs }) => atMs), shrinksAtMs: shrinks.map(({ atMs }) => atMs) };
}
