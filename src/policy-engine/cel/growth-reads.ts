// Where expressions read how fast a volume fills, and over which time: as long as they look ahead, which is known once all of a policy's
// expressions are compiled.

/** One place at which an expression reads how fast the volume fills. */
export interface GrowthRead {
  /** As far as it looks ahead, milliseconds: what it is compared with. 0 until something says so; the expressions that follow may. */
  horizonMs: number;
}

/** Growth is the trend of as long a time as a rule looks ahead, but of no less than this, … */
const MIN_GROWTH_WINDOW_MS = 600_000;
/** … of no more than this, … */
const MAX_GROWTH_WINDOW_MS = 6 * 3_600_000;
/** … and of this where nothing says how far that is. */
const GROWTH_WINDOW_MS = 3_600_000;

/** The window that is read, once the whole policy is compiled. */
export function growthWindowMs({ horizonMs }: GrowthRead): number {
  if (horizonMs === 0) return GROWTH_WINDOW_MS;
  return Math.min(MAX_GROWTH_WINDOW_MS, Math.max(MIN_GROWTH_WINDOW_MS, horizonMs));
}

/** Several expressions may compare one variable: the furthest of them counts. */
export function lookAhead(reads: readonly GrowthRead[], seconds: number): void {
  if (!(seconds > 0)) return;
  for (const read of reads) read.horizonMs = Math.max(read.horizonMs, Math.round(seconds) * 1000);
}
