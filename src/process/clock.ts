// Time as a parameter: whoever decides gets `nowMs` handed in; only loops at the edge hold a Clock.

export interface Clock {
  /** Wall-clock time, Unix milliseconds: for what people and the API read. */
  nowMs(): number;
  /** Never jumps back: for intervals, deadlines and leases. */
  monotonicMs(): number;
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
};
