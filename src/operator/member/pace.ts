// How often something is asked for again that is refused each time: at most once in an interval for each key.
import type { Clock } from "../../process/clock.ts";

export interface Pace {
  /** True when it was not asked for within the interval; it counts as asked for then. */
  mayAsk(key: string): boolean;
  /** It was asked for in vain: the next one may ask at once. */
  forget(key: string): void;
}

export function createPace({ monotonicMs }: Pick<Clock, "monotonicMs">, intervalMs: number): Pace {
  // In the order of asking: what is over stands first.
  const askedMs = new Map<string, number>();
  return {
    mayAsk: (key) => {
      const nowMs = monotonicMs();
      for (const [oldest, atMs] of askedMs) {
        if (nowMs - atMs < intervalMs) break;
        askedMs.delete(oldest);
      }
      if (askedMs.has(key)) return false;
      askedMs.set(key, nowMs);
      return true;
    },
    forget: (key) => {
      askedMs.delete(key);
    },
  };
}
