// When a volume's operations took place, on the engine's clock. A change is named by the time that its node gave it; its age counts by the
// engine's own clock, so that a wrong clock puts no change into the future. Pure.
import type { Instant } from "../../platform/process/clock.ts";
import {
  type Flaps,
  type MissedWindows,
  NO_CHANGES,
  type ReceivedReading,
  type RecentChanges,
} from "../facts/facts.ts";

export interface Change {
  /** As its node dated it, Unix milliseconds. */
  readonly stampMs: number;
  /** On the engine's monotonic clock. */
  readonly atMs: number;
}

export interface Changes {
  readonly extends: Change[];
  readonly shrinks: Change[];
  /** Extends of the last 14 days that took back a shrink. */
  readonly flaps: Change[];
  /** The most that was used in the day before the last shrink was decided; undefined: that is not known. */
  peakBeforeShrinkBytes: number | undefined;
  /** The last shrinks, where their windows ended them before a first step was done. */
  missedWindows?: MissedWindows | undefined;
}

const DAY_MS = 86_400_000;

/** When what carries this date was, on the monotonic clock: by its age on the wall clock, and never later than now. */
export function datedAtMs(stampMs: number, { nowMs, monotonicMs }: Instant): number {
  return monotonicMs - Math.max(0, nowMs - stampMs);
}

/** Adds those that are not known yet, and forgets what is older than that. Returns those that it has added. */
export function noteChanges(
  changes: Change[],
  noted: readonly Change[],
  { monotonicMs }: Instant,
  rememberedMs = DAY_MS,
): readonly Change[] {
  const known = new Set(changes.map(({ stampMs }) => stampMs));
  const added = noted.filter(({ stampMs }) => stampMs > 0 && !known.has(stampMs));
  changes.push(...added);
  changes.sort((a, b) => a.atMs - b.atMs);
  while ((changes[0]?.atMs ?? monotonicMs) < monotonicMs - rememberedMs) changes.shift();
  return added;
}

/** Two weeks: a week is held for two flaps that are less than a week apart. */
export const FLAPS_REMEMBERED_MS = 14 * DAY_MS;

export function flapsOf({ flaps, peakBeforeShrinkBytes }: Changes): Flaps | undefined {
  if (flaps.length === 0 && peakBeforeShrinkBytes === undefined) return undefined;
  return { atMs: flaps.map(({ atMs }) => atMs), peakBeforeShrinkBytes };
}

/** An extend that its node has decided by itself, for want of room, takes back a shrink like any other. */
export function noteEmergency(changes: Changes, extended: Change, usedBytes: number | undefined, at: Instant): void {
  const lastShrinkMs = changes.shrinks.at(-1)?.atMs ?? Number.NEGATIVE_INFINITY;
  const isCounted = (changes.flaps.at(-1)?.atMs ?? Number.NEGATIVE_INFINITY) > lastShrinkMs;
  if (isCounted || extended.atMs - lastShrinkMs >= DAY_MS) return;
  if (!((usedBytes ?? Number.NaN) <= (changes.peakBeforeShrinkBytes ?? -1))) return;
  noteChanges(changes.flaps, [extended], at, FLAPS_REMEMBERED_MS);
}

export function recentChanges({ extends: extended, shrinks }: Pick<Changes, "extends" | "shrinks">): RecentChanges {
  if (extended.length + shrinks.length === 0) return NO_CHANGES;
  return { extendsAtMs: extended.map(({ atMs }) => atMs), shrinksAtMs: shrinks.map(({ atMs }) => atMs) };
}

// An end comes through the API server and readings through a stream, in any order: only their node knows which came first.

export interface SeenEnd {
  /** When its node says that it ended: it names the operation. */
  readonly endedAt: string;
  /** On the engine's clock: when that was first heard, or before. */
  readonly seenAtMs: number;
}

type DatedReading = Pick<ReceivedReading, "takenMs" | "sampledAtMs" | "afterEndMs">;

/** Earlier than the reading where the reading came after it, whichever of them arrived first; else not earlier. */
export function endInTime({ endedAt, seenAtMs }: SeenEnd, reading: DatedReading | undefined): number {
  if (reading?.afterEndMs === undefined) return seenAtMs;
  return isAfter(reading, Date.parse(endedAt))
    ? Math.min(seenAtMs, reading.takenMs - 1)
    : Math.max(seenAtMs, reading.takenMs);
}

/**
 * Where it names another end, its own report of the last one is still on its way: then its node's clock decides, which may be wrong or have
 * been set since, but has dated both.
 */
function isAfter({ sampledAtMs, afterEndMs }: DatedReading, endedAtMs: number): boolean {
  return afterEndMs === endedAtMs || sampledAtMs > endedAtMs;
}
