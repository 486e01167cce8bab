// Which volume of the node is trimmed next. Pure, from when each was trimmed last and how often its policy wants it; the volumes of a
// node are spread over the time, since each trim keeps their disks busy.

export interface TrimFacts {
  readonly handle: string;
  readonly everyMs: number;
  /** The end of its last trim; of a volume that was never trimmed when it was first known that it shall be. Unix time. */
  readonly sinceMs: number;
  readonly wasTrimmed: boolean;
  /** A trim that gave way is not tried again before. */
  readonly notBeforeMs: number;
}

/** Of the time between two trims, by which those of one node drift apart. */
const JITTER_RATIO = 0.1;

/** The one that is overdue the longest; undefined: none is due. */
export function decideNextTrim(volumes: readonly TrimFacts[], nowMs: number): string | undefined {
  const due = volumes
    .map((facts) => ({ handle: facts.handle, dueAtMs: trimDueAtMs(facts, nowMs) }))
    .filter(({ dueAtMs }) => dueAtMs <= nowMs)
    .sort((a, b) => a.dueAtMs - b.dueAtMs);
  return due[0]?.handle;
}

/** At least `everyMs` after the last one; the first of a volume comes at a time of its own within `everyMs`. */
export function trimDueAtMs({ handle, everyMs, sinceMs, wasTrimmed, notBeforeMs }: TrimFacts, nowMs: number): number {
  // A clock that was set back must not keep it untrimmed for as long as it was ahead.
  if (sinceMs > nowMs) return Math.max(nowMs, notBeforeMs);
  const waits = wasTrimmed ? 1 + JITTER_RATIO * shareOf(handle) : shareOf(handle);
  return Math.max(sinceMs + everyMs * waits, notBeforeMs);
}

/** 0..1, always the same for a volume: the end of its handle is that of a UUID. */
function shareOf(handle: string): number {
  const digits = Number.parseInt(handle.slice(-8), 16);
  return Number.isNaN(digits) ? 0 : digits / 2 ** 32;
}
