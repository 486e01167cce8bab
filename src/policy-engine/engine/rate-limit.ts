// A token bucket: so many a second on average, no burst larger than a second's worth. Time is handed in,
// of a clock that never jumps: with one that was set back it would add nothing for as long.

export interface RateLimit {
  /** Takes one when there is one. */
  take(monotonicMs: number): boolean;
}

export function createRateLimit(perSecond: number): RateLimit {
  let tokens = perSecond;
  let refilledAtMs = Number.NEGATIVE_INFINITY;
  return {
    take: (monotonicMs) => {
      if (monotonicMs > refilledAtMs) {
        tokens = Math.min(perSecond, tokens + ((monotonicMs - refilledAtMs) / 1000) * perSecond);
        refilledAtMs = monotonicMs;
      }
      if (tokens < 1) return false;
      tokens -= 1;
      return true;
    },
  };
}
