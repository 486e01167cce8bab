// A token bucket: so many a second on average, no burst larger than a second's worth. Time is handed in.

export interface RateLimit {
  /** Takes one when there is one. */
  take(nowMs: number): boolean;
}

export function createRateLimit(perSecond: number): RateLimit {
  let tokens = perSecond;
  let refilledAtMs = Number.NEGATIVE_INFINITY;
  return {
    take: (nowMs) => {
      // A clock that jumps back adds nothing.
      if (nowMs > refilledAtMs) {
        tokens = Math.min(perSecond, tokens + ((nowMs - refilledAtMs) / 1000) * perSecond);
        refilledAtMs = nowMs;
      }
      if (tokens < 1) return false;
      tokens -= 1;
      return true;
    },
  };
}
