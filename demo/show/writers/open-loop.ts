// Offered load as a schedule: how many bytes should have been written by now, whatever the disk has managed. Being late never
// lowers it (a closed loop would hide every stall). Pure.

export interface OfferedLoad {
  /** When the writer has written so much, the moment from which the next byte is due, milliseconds. */
  dueMs(writtenBytes: number): number;
  /** Bytes that should have been written by then. */
  offeredBytes(nowMs: number): number;
  /** A new phase of the workload: its schedule begins now, and what the old one still owed is forgotten. */
  changeRate(bytesPerSecond: number, writtenBytes: number, nowMs: number): void;
}

export function createOfferedLoad(bytesPerSecond: number, startMs: number): OfferedLoad {
  let phase = { bytesPerMs: bytesPerSecond / 1000, startMs, startBytes: 0 };
  return {
    dueMs: (writtenBytes) => {
      const bytes = writtenBytes - phase.startBytes;
      if (phase.bytesPerMs === 0) return Number.POSITIVE_INFINITY;
      return phase.startMs + bytes / phase.bytesPerMs;
    },
    offeredBytes: (nowMs) => phase.startBytes + (nowMs - phase.startMs) * phase.bytesPerMs,
    changeRate: (newBytesPerSecond, writtenBytes, nowMs) => {
      phase = { bytesPerMs: newBytesPerSecond / 1000, startMs: nowMs, startBytes: writtenBytes };
    },
  };
}
