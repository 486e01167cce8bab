// When a volume's last operation ended, on the engine's clock. The end comes through the API server and the readings through a stream, each
// when it can: that a reading came after the end only its node can say. Pure.

/** What a node says of the time of one reading, all on its own clock, which may be wrong or have been set since. */
export interface NodeStamp {
  readonly atMs: number;
  /** When the last operation ended that the reading came after; 0: the node names none. */
  readonly afterEndMs: number;
}

export interface SeenEnd {
  /** When its node says that it ended: it names the operation. */
  readonly endedAt: string;
  /** On the engine's clock: when that was first heard, or before. */
  readonly seenAtMs: number;
}

export interface StampedReading {
  /** On the engine's clock. */
  readonly sampledAtMs: number;
  /** Undefined: another clock has dated the reading, and only the order of arrival counts. */
  readonly stamp: NodeStamp | undefined;
}

/** Earlier than the reading where the reading came after it, whichever of them arrived first; else not earlier. */
export function endInTime({ endedAt, seenAtMs }: SeenEnd, reading: StampedReading | undefined): number {
  if (reading?.stamp === undefined) return seenAtMs;
  return isAfter(reading.stamp, Date.parse(endedAt))
    ? Math.min(seenAtMs, reading.sampledAtMs - 1)
    : Math.max(seenAtMs, reading.sampledAtMs);
}

/** Where it names another end, its own report of the last one is still on its way: then its clock decides, which has dated both. */
function isAfter({ atMs, afterEndMs }: NodeStamp, endedAtMs: number): boolean {
  return afterEndMs === endedAtMs || atMs > endedAtMs;
}
