// How long to wait before trying again: the back-offs of all processes in one table, and the formula. Pure: the dice are handed in. What a
// policy's author sees, how long a failed resize rests, is the policy-engine's own.

export interface BackOff {
  /** The wait after the first failure, before jitter. */
  readonly baseMs: number;
  /** No wait is longer, jitter included. */
  readonly capMs: number;
}

/** By who waits for the success. */
export const BACK_OFFS = {
  /** An object that another writer changed first: a burst of writes passes by, and eight attempts together take under a second. */
  conflict: { baseMs: 2, capMs: 200 },
  /** A pod waits, or a filesystem that fills: the first repetitions come quickly, and a failure that lasts costs a call a minute. */
  waited: { baseMs: 50, capMs: 60_000 },
  /** lvmd and the policy-engine: one peer of few callers, which restarts within seconds, and is used at once when it has. */
  peer: { baseMs: 100, capMs: 5000 },
  /** The guards of members: no span gets a member while they are not seen to be there, and one operator asks for them. */
  guard: { baseMs: 100, capMs: 10_000 },
  /** What a node does for its own volumes, and certificates: it heals by itself, and hundreds of nodes may fail at once. */
  node: { baseMs: 200, capMs: 30_000 },
  /** Lists and watches of the API server: all processes lose theirs together. */
  watch: { baseMs: 500, capMs: 30_000 },
  /** A policy whose rules took too much of the thread that decides: each attempt may cost all volumes some seconds. */
  slowPolicy: { baseMs: 60_000, capMs: 3_600_000 },
  /** All other work: nothing waits for it, and the next change of its object runs it sooner. */
  other: { baseMs: 500, capMs: 300_000 },
} as const satisfies Record<string, BackOff>;

/** Milliseconds until something is checked again that no watch reports, and that has not failed. */
export const AGAIN_AFTER_MS = {
  /** A write that is repeated until it is taken. */
  write: 5000,
  /** A provisioner's Events, a thin pool's volume group: they change within seconds of their cause. */
  unwatched: 10_000,
  /** A quota, a permission, nodes that look lost, a peer that refuses us: a person or another controller changes it. */
  elsewhere: 30_000,
} as const;

/**
 * Milliseconds to wait after `failures` failures in a row (1-based; 0 gives 0). `random` is in [0, 1): the wait lies
 * between half of the exponential step and all of it, so that many clients that failed together come back apart.
 */
export function backOffMs(failures: number, backOff: BackOff, random: number): number {
  if (failures <= 0) return 0;
  const stepMs = Math.min(backOff.capMs, backOff.baseMs * 2 ** (failures - 1));
  return stepMs / 2 + (stepMs / 2) * random;
}
