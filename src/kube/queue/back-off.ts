// How long to wait after the n-th failure in a row: exponential, capped, with jitter. Pure: the dice are handed in.

export interface BackOff {
  /** The wait after the first failure, before jitter. */
  readonly baseMs: number;
  /** No wait is longer, jitter included. */
  readonly capMs: number;
}

/**
 * Milliseconds to wait after `failures` failures in a row (1-based; 0 gives 0). `random` is in [0, 1): the wait lies
 * between half of the exponential step and all of it, so that many clients that failed together come back apart.
 */
export function backOffMs(failures: number, backOff: BackOff, random: number): number {
  if (failures <= 0) return 0;
  const stepMs = Math.min(backOff.capMs, backOff.baseMs * 2 ** (failures - 1));
  return stepMs / 2 + (stepMs / 2) * random;
}
