// Time as a parameter: whoever decides gets `nowMs` handed in; only loops at the edge hold a Clock.

export interface Clock {
  /** Wall-clock time, Unix milliseconds: for what people and the API read. */
  nowMs(): number;
  /** Never jumps, and is the same in all threads: for intervals, deadlines, leases and ages. It begins with the machine's boot. */
  monotonicMs(): number;
}

/** One instant on both clocks. */
export interface Instant {
  readonly nowMs: number;
  readonly monotonicMs: number;
}

export function instantOf(clock: Clock): Instant {
  return { nowMs: clock.nowMs(), monotonicMs: clock.monotonicMs() };
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  // Not performance.now(), which begins anew in each thread.
  monotonicMs: () => Number(process.hrtime.bigint()) / 1e6,
};
