// How fast one volume fills, for rules: the trend of the last minutes to hours, which a load that comes and goes does not move. The growth
// of the last seconds, by which minAvailable and reserves are counted, is the agent's. It must never call a time measured that it has not
// seen.
import { formatDuration } from "../../contracts/quantities/duration.ts";
import type { GrowthWindows, MissingHistory } from "./facts.ts";

/** Of each window; more would say no more. */
const MAX_POINTS = 64;
/** Fewer make no trend … */
const MIN_POINTS = 3;
/** … and of its newest parts. */
const MIN_NEWEST_POINTS = 2;
/** More of a window than this before the first sample, and its growth is not known. */
const MAX_MISSING_RATIO = 0.05;
/** The newest parts of a window, by which a load that has ended, or is about to, is seen. */
const NEWEST_RATIOS = [1 / 3, 1 / 12];
/** The list of points is thinned when it is this long, then each time it has doubled. */
const MIN_THINNED_LENGTH = 1.5 * MAX_POINTS;

export class GrowthHistory implements GrowthWindows {
  readonly windowsMs: readonly number[];
  readonly #shortestMs: number;
  readonly #longestMs: number;
  /** [timeMs, usedBytes, …], oldest first. */
  #points: number[] = [];
  #sinceMs = Number.NaN;
  #thinAtLength = MIN_THINNED_LENGTH;
  /** What is known of each window since the last point. */
  #known = new Map<number, number | undefined>();

  /** `windowsMs`: those that a policy reads, at least one. `before`: what is remembered for other ones, and goes on. */
  constructor(windowsMs: readonly number[], before?: GrowthHistory) {
    this.windowsMs = windowsMs;
    this.#shortestMs = Math.min(...windowsMs);
    this.#longestMs = Math.max(...windowsMs);
    if (before === undefined) return;
    this.#points = before.#points;
    // What was forgotten for shorter windows is missing in longer ones.
    const reachMs = (before.#points.at(-2) ?? Number.NaN) - before.#longestMs;
    this.#sinceMs = Math.max(before.#sinceMs, reachMs);
  }

  /** Adds a sample that was taken while no operation ran. One that is impossible, or no newer than the last point, is ignored. */
  record(atMs: number, usedBytes: number): void {
    if (!(Number.isSafeInteger(usedBytes) && usedBytes >= 0)) return;
    const newestMs = this.#points.at(-2) ?? Number.NEGATIVE_INFINITY;
    if (!(atMs >= newestMs + this.#shortestMs / MAX_POINTS)) return;
    if (Number.isNaN(this.#sinceMs)) this.#sinceMs = atMs;
    this.#points.push(atMs, usedBytes);
    this.#known.clear();
    if (this.#points.length >= 2 * this.#thinAtLength) this.#thin(atMs);
  }

  bytesPerSecond(windowMs: number, nowMs: number): number | MissingHistory {
    const startMs = nowMs - windowMs;
    const missingMs = Number.isNaN(this.#sinceMs) ? windowMs : Math.max(0, this.#sinceMs - startMs);
    if (missingMs > windowMs * MAX_MISSING_RATIO) return missing(missingMs, windowMs);
    if (!this.#known.has(windowMs)) this.#known.set(windowMs, this.#trend(windowMs, startMs));
    return this.#known.get(windowMs) ?? missing(windowMs, windowMs);
  }

  /** Of the whole window or of its newest parts, whichever is slowest: what is not over, and did not only begin. */
  #trend(windowMs: number, startMs: number): number | undefined {
    const points = this.#pointsOf(windowMs, startMs);
    if (points.length < 2 * MIN_POINTS) return undefined;
    const parts = NEWEST_RATIOS.map((ratio) => points.slice(indexFrom(points, startMs + windowMs * (1 - ratio))));
    const [newest = []] = parts;
    if (newest.length < 2 * MIN_NEWEST_POINTS) return undefined;
    const known = parts.filter(({ length }) => length >= 2 * MIN_NEWEST_POINTS);
    return Math.min(medianSlope(points), ...known.map(medianSlope));
  }

  /** At most MAX_POINTS of them, evenly spread. */
  #pointsOf(windowMs: number, startMs: number): number[] {
    const taken: number[] = [];
    const spacingMs = windowMs / MAX_POINTS;
    for (let i = indexFrom(this.#points, startMs); i < this.#points.length; i += 2) {
      const atMs = this.#points[i] ?? 0;
      if (taken.length === 0 || atMs >= (taken.at(-2) ?? 0) + spacingMs) taken.push(atMs, this.#points[i + 1] ?? 0);
    }
    return taken.slice(-2 * MAX_POINTS);
  }

  // The older a point, the longer the windows that it is in: so much further apart may they be.
  #thin(nowMs: number): void {
    const thinned: number[] = [];
    for (let i = 0; i < this.#points.length; i += 2) {
      const atMs = this.#points[i] ?? 0;
      const ageMs = nowMs - atMs;
      const spacingMs = Math.max(this.#shortestMs, ageMs) / MAX_POINTS;
      if (ageMs > this.#longestMs || atMs < (thinned.at(-2) ?? Number.NEGATIVE_INFINITY) + spacingMs) continue;
      thinned.push(atMs, this.#points[i + 1] ?? 0);
    }
    this.#points = thinned;
    this.#thinAtLength = Math.max(MIN_THINNED_LENGTH, thinned.length);
  }
}

/** Goes on for the windows that a policy reads, with what is remembered; undefined: it reads none. */
export function growthHistoryFor(
  before: GrowthHistory | undefined,
  windowsMs: readonly number[],
): GrowthHistory | undefined {
  if (windowsMs.length === 0) return undefined;
  const isSame =
    before?.windowsMs.length === windowsMs.length && windowsMs.every((one) => before.windowsMs.includes(one));
  return isSame ? before : new GrowthHistory(windowsMs, before);
}

function indexFrom(points: readonly number[], fromMs: number): number {
  let index = 0;
  while (index < points.length && (points[index] ?? 0) < fromMs) index += 2;
  return index;
}

/** Theil (1950) and Sen (1968): the median of the slopes between all pairs, which nearly a third of wild points do not move. Bytes a second. */
function medianSlope(points: readonly number[]): number {
  const count = points.length / 2;
  const slopes = new Float64Array((count * (count - 1)) / 2);
  let length = 0;
  for (let i = 0; i < points.length; i += 2) {
    const [atMs, usedBytes] = [points[i] ?? 0, points[i + 1] ?? 0];
    for (let j = i + 2; j < points.length; j += 2)
      slopes[length++] = ((points[j + 1] ?? 0) - usedBytes) / (((points[j] ?? 0) - atMs) / 1000);
  }
  // Of an even number the lower one: growth is never said to be more than was seen.
  return smallest(slopes, (length - 1) >> 1);
}

/** The value that stands at this place when they are sorted; moves them (Hoare, "Find", 1961). */
function smallest(values: Float64Array, place: number): number {
  let [low, high] = [0, values.length - 1];
  while (low < high) {
    const pivot = values[(low + high) >> 1] ?? 0;
    let [i, j] = [low, high];
    while (i <= j) {
      while ((values[i] ?? 0) < pivot) i += 1;
      while ((values[j] ?? 0) > pivot) j -= 1;
      if (i > j) break;
      const held = values[i] ?? 0;
      values[i] = values[j] ?? 0;
      values[j] = held;
      i += 1;
      j -= 1;
    }
    if (place <= j) high = j;
    else if (place >= i) low = i;
    else break;
  }
  return values[place] ?? 0;
}

function missing(missingMs: number, windowMs: number): MissingHistory {
  const percent = Math.min(100, Math.ceil((missingMs / windowMs) * 100));
  return {
    missing: `growth is the trend of the last ${formatDuration(windowMs)}, of which ${percent}% was not measured`,
  };
}
