// How fast a filesystem fills: a robust slope over the last seconds, and the highest rate of the last minute. Pure state,
// no clock; it never allocates after it was made, since it runs for every sample.

/** Points closer than this to the last one only update the newest rate: rates over less are noise. */
const POINT_SPACING_MS = 200;
const POINT_COUNT = 16;
const WINDOW_MS = 4000;
const PEAK_WINDOW_SECONDS = 60;

export interface GrowthTracker {
  /** Samples must come in order of time; one that does not is left out. */
  observe(nowMs: number, usedBytes: number): void;
  /** Forgets the slope, since an operation has changed what "used" is made of; the peak stays. */
  restart(): void;
  /** The median slope between the points of the last seconds; negative when emptying, 0 when unknown. */
  growthBytesPerSecond(): number;
  /** The rate between the newest two points. */
  newestBytesPerSecond(): number;
  /** The highest rate of the last 60 s; never negative. */
  peakBytesPerSecond(nowMs: number): number;
}

export function createGrowthTracker(): GrowthTracker {
  const atMs = new Float64Array(POINT_COUNT);
  const used = new Float64Array(POINT_COUNT);
  const slopes = new Float64Array((POINT_COUNT * (POINT_COUNT - 1)) / 2);
  const peaks = new Float64Array(PEAK_WINDOW_SECONDS);
  const peakSecond = new Float64Array(PEAK_WINDOW_SECONDS).fill(-1);
  let count = 0;
  let growth = 0;
  let newest = 0;

  const dropOlderThan = (limitMs: number): void => {
    let first = count === POINT_COUNT ? 1 : 0;
    while (first < count && (atMs[first] ?? 0) < limitMs) first += 1;
    if (first === 0) return;
    atMs.copyWithin(0, first, count);
    used.copyWithin(0, first, count);
    count -= first;
  };
  const notePeak = (nowMs: number, rate: number): void => {
    const second = Math.floor(nowMs / 1000);
    const bucket = second % PEAK_WINDOW_SECONDS;
    if (peakSecond[bucket] !== second) {
      peakSecond[bucket] = second;
      peaks[bucket] = 0;
    }
    peaks[bucket] = Math.max(peaks[bucket] ?? 0, rate);
  };
  return {
    observe: (nowMs, usedBytes) => {
      if (count > 0) {
        const elapsedMs = nowMs - (atMs[count - 1] ?? 0);
        if (elapsedMs < POINT_SPACING_MS) return;
        newest = ((usedBytes - (used[count - 1] ?? 0)) / elapsedMs) * 1000;
        notePeak(nowMs, newest);
      }
      dropOlderThan(nowMs - WINDOW_MS);
      atMs[count] = nowMs;
      used[count] = usedBytes;
      count += 1;
      growth = medianSlope(atMs, used, count, slopes);
    },
    restart: () => {
      count = 0;
      newest = 0;
      growth = 0;
    },
    growthBytesPerSecond: () => growth,
    newestBytesPerSecond: () => newest,
    peakBytesPerSecond: (nowMs) => {
      const oldest = Math.floor(nowMs / 1000) - PEAK_WINDOW_SECONDS;
      let peak = 0;
      for (let bucket = 0; bucket < PEAK_WINDOW_SECONDS; bucket += 1)
        if ((peakSecond[bucket] ?? -1) > oldest) peak = Math.max(peak, peaks[bucket] ?? 0);
      return peak;
    },
  };
}

/** Theil and Sen's estimator: one odd sample among several does not move it. */
function medianSlope(atMs: Float64Array, used: Float64Array, count: number, slopes: Float64Array): number {
  let found = 0;
  for (let later = 1; later < count; later += 1)
    for (let earlier = 0; earlier < later; earlier += 1) {
      const elapsedMs = (atMs[later] ?? 0) - (atMs[earlier] ?? 0);
      slopes[found] = (((used[later] ?? 0) - (used[earlier] ?? 0)) / elapsedMs) * 1000;
      found += 1;
    }
  if (found === 0) return 0;
  const sorted = slopes.subarray(0, found).sort();
  return sorted[Math.floor(found / 2)] ?? 0;
}
