// What one volume used, over windows of up to 7 days that end now: the peak that a shrink must respect. It is a staircase: a sample that a
// later one reaches can never be the peak again, so a volume that only grows has a single step. It must never forget a peak early, and
// never pretend to have seen a time that it has not.

import { formatDuration } from "../../contracts/quantities/duration.ts";
import type { MissingHistory, UsageWindows } from "./facts.ts";
import { MAX_AHEAD_MS } from "./measurements.ts";

/** The most bytes used in one hour, as Prometheus remembers it. */
export interface HourlyMaximum {
  readonly hourStartMs: number;
  readonly usedBytes: number;
}

const HOUR_MS = 3_600_000;
/** Steps are a second apart for this long, then an hour. */
const FINE_MS = 600_000;
const FINE_STEP_MS = 1000;
const MAX_WINDOW_MS = 7 * 24 * HOUR_MS;
/** A span without a sample longer than this many intervals of the source is a gap. */
const GAP_INTERVALS = 3;
/** More of a window than this in gaps, and its peak is not known. */
const MAX_GAP_RATIO = 0.05;
/** More gaps are joined to their neighbours, which only ever counts more time as missing. */
const MAX_GAPS = 64;
/** The list of steps is thinned when it is this long, then each time it has doubled. */
const MIN_THINNED_LENGTH = 64;

// Both lists hold pairs of plain doubles, which V8 packs: 16 bytes a step, and no typed array's header of 200.
const NONE: number[] = [];

export class UsageHistory implements UsageWindows {
  /** [timeMs, usedBytes, …], oldest first, each lower than the one before: the steps down to the newest sample. */
  #steps: number[] = NONE;
  /** [startMs, endMs, …], oldest first. */
  #gaps: number[] = NONE;
  #sinceMs = Number.NaN;
  #seenAtMs = Number.NaN;
  #intervalMs = 0;
  #thinAtLength = MIN_THINNED_LENGTH;

  /** Adds a sample. One that is impossible, from the future, or not newer than the last one is ignored. */
  record(sampledAtMs: number, usedBytes: number, intervalMs: number, nowMs: number): void {
    if (!(usedBytes >= 0 && usedBytes <= Number.MAX_SAFE_INTEGER)) return;
    if (!this.#advance(sampledAtMs, intervalMs, nowMs)) return;
    this.#push(sampledAtMs, usedBytes);
  }

  /** Notes that the volume was sampled while an operation ran: no value to remember, and no gap. */
  skip(sampledAtMs: number, intervalMs: number, nowMs: number): void {
    this.#advance(sampledAtMs, intervalMs, nowMs);
  }

  /** Puts older hours in front of what was recorded. Hours that are missing between them are gaps. */
  backfill(hours: readonly HourlyMaximum[], nowMs: number): void {
    const known = hours.filter((hour) => isPossibleHour(hour, nowMs)).sort((a, b) => a.hourStartMs - b.hourStartMs);
    const first = known[0];
    if (first === undefined || first.hourStartMs >= this.#sinceMs) return;
    const [steps, gaps, sinceMs] = [this.#steps, this.#gaps, this.#sinceMs];
    const live = { seenAtMs: this.#seenAtMs, intervalMs: this.#intervalMs };
    this.#startAt(first.hourStartMs);
    for (const hour of known) this.#pushHour(hour, Number.isNaN(sinceMs) ? nowMs : sinceMs);
    if (Number.isNaN(sinceMs)) return;
    if (sinceMs - this.#seenAtMs > GAP_INTERVALS * live.intervalMs) this.#addGap(this.#seenAtMs, sinceMs);
    for (let i = 0; i < steps.length; i += 2) this.#push(steps[i] ?? 0, steps[i + 1] ?? 0);
    for (let i = 0; i < gaps.length; i += 2) this.#addGap(gaps[i] ?? 0, gaps[i + 1] ?? 0);
    this.#seenAtMs = live.seenAtMs;
    this.#intervalMs = live.intervalMs;
  }

  maxUsedBytes(windowMs: number, nowMs: number): number | MissingHistory {
    const startMs = nowMs - windowMs;
    const missingMs = this.#missingMs(startMs, nowMs);
    if (!(missingMs <= windowMs * MAX_GAP_RATIO)) return { missing: missingText(missingMs, windowMs) };
    return this.#mostSince(startMs) ?? { missing: "nothing has been measured yet" };
  }

  mostSeenBytes(windowMs: number, nowMs: number): number {
    return this.#mostSince(nowMs - windowMs) ?? 0;
  }

  #mostSince(startMs: number): number | undefined {
    const steps = this.#steps;
    // The newest sample counts however old it is: nothing newer says otherwise.
    for (let i = 0; i < steps.length - 2; i += 2) if ((steps[i] ?? 0) >= startMs) return steps[i + 1] ?? 0;
    return steps[steps.length - 1];
  }

  /** How many steps and gaps it keeps, for the memory metric. */
  get length(): number {
    return (this.#steps.length + this.#gaps.length) / 2;
  }

  #advance(sampledAtMs: number, intervalMs: number, nowMs: number): boolean {
    if (!(sampledAtMs <= nowMs + MAX_AHEAD_MS) || sampledAtMs <= this.#seenAtMs) return false;
    if (Number.isNaN(this.#sinceMs)) this.#startAt(sampledAtMs);
    const silentMs = sampledAtMs - this.#seenAtMs;
    if (silentMs > GAP_INTERVALS * intervalMs) this.#addGap(this.#seenAtMs, sampledAtMs);
    this.#seenAtMs = sampledAtMs;
    this.#intervalMs = intervalMs;
    return true;
  }

  #startAt(sinceMs: number): void {
    this.#sinceMs = sinceMs;
    this.#seenAtMs = sinceMs;
    this.#steps = NONE;
    this.#gaps = NONE;
  }

  #pushHour(hour: HourlyMaximum, beforeMs: number): void {
    if (hour.hourStartMs >= beforeMs) return;
    if (hour.hourStartMs > this.#seenAtMs) this.#addGap(this.#seenAtMs, hour.hourStartMs);
    const endMs = Math.min(hour.hourStartMs + HOUR_MS, beforeMs);
    this.#push(endMs, hour.usedBytes);
    this.#seenAtMs = endMs;
    this.#intervalMs = HOUR_MS;
  }

  // Steps that the new sample reaches can never be a peak again. A step closer than the resolution joins the one before it, with
  // the higher value at the later time: a peak is remembered longer, never shorter.
  #push(timeMs: number, usedBytes: number): void {
    if (this.#steps === NONE) this.#steps = [];
    const steps = this.#steps;
    while (steps.length > 0 && (steps[steps.length - 1] ?? 0) <= usedBytes) steps.length -= 2;
    steps.push(timeMs, usedBytes);
    if (steps.length >= this.#thinAtLength) this.#thin(timeMs);
  }

  // Keeps the newest step apart: it is what the volume uses now.
  #thin(nowMs: number): void {
    const steps = this.#steps;
    let kept = 0;
    for (let i = 0; i < steps.length; i += 2) {
      const [timeMs, usedBytes] = [steps[i] ?? 0, steps[i + 1] ?? 0];
      const isNewest = i === steps.length - 2;
      if (nowMs - timeMs > MAX_WINDOW_MS && !isNewest) continue;
      if (kept > 0 && !isNewest && isSameStep(steps[kept - 2] ?? 0, timeMs, nowMs)) {
        steps[kept - 2] = timeMs;
        continue;
      }
      steps[kept] = timeMs;
      steps[kept + 1] = usedBytes;
      kept += 2;
    }
    steps.length = kept;
    this.#thinAtLength = Math.max(MIN_THINNED_LENGTH, 2 * kept);
  }

  #addGap(startMs: number, endMs: number): void {
    if (this.#gaps === NONE) this.#gaps = [];
    const gaps = this.#gaps;
    gaps.push(startMs, endMs);
    while (gaps.length > 2 && (gaps[1] ?? 0) < endMs - MAX_WINDOW_MS) gaps.splice(0, 2);
    if (gaps.length > 2 * MAX_GAPS) joinNearest(gaps);
  }

  #missingMs(startMs: number, nowMs: number): number {
    if (Number.isNaN(this.#sinceMs)) return nowMs - startMs;
    let missingMs = Math.max(0, Math.min(this.#sinceMs, nowMs) - startMs);
    const gaps = this.#gaps;
    for (let i = 0; i < gaps.length; i += 2)
      missingMs += Math.max(0, Math.min(gaps[i + 1] ?? 0, nowMs) - Math.max(gaps[i] ?? 0, startMs));
    const silentMs = nowMs - this.#seenAtMs;
    if (silentMs > GAP_INTERVALS * this.#intervalMs) missingMs += Math.min(silentMs, nowMs - startMs);
    return missingMs;
  }
}

function isPossibleHour(hour: HourlyMaximum, nowMs: number): boolean {
  const { hourStartMs, usedBytes } = hour;
  return (
    hourStartMs >= nowMs - MAX_WINDOW_MS - HOUR_MS &&
    hourStartMs <= nowMs &&
    usedBytes >= 0 &&
    usedBytes <= Number.MAX_SAFE_INTEGER
  );
}

// Two steps that are as good as one at their age.
function isSameStep(earlierMs: number, laterMs: number, nowMs: number): boolean {
  const stepMs = nowMs - laterMs > FINE_MS ? HOUR_MS : FINE_STEP_MS;
  return Math.floor(earlierMs / stepMs) === Math.floor(laterMs / stepMs);
}

function joinNearest(gaps: number[]): void {
  let nearest = 0;
  for (let i = 0; i + 3 < gaps.length; i += 2) if (distanceAfter(gaps, i) < distanceAfter(gaps, nearest)) nearest = i;
  gaps.splice(nearest + 1, 2);
}

function distanceAfter(gaps: readonly number[], index: number): number {
  return (gaps[index + 2] ?? 0) - (gaps[index + 1] ?? 0);
}

function missingText(missingMs: number, windowMs: number): string {
  const percent = Math.min(100, Math.ceil((missingMs / windowMs) * 100));
  return `${percent}% of the last ${formatDuration(windowMs)} was not measured (at most ${MAX_GAP_RATIO * 100}% may be missing)`;
}
