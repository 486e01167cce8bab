// The facts as they will be: after a change of size, or at another use. Derived facts are asked the same questions as real ones.
import type { Facts, MissingHistory, ReceivedReading, UsageWindows } from "./facts.ts";

/** The facts after a change of size, with usedRatio as if `useFactor` times as much were used (1: as it is). */
export function predictSize(facts: Facts, sizeBytes: number, useFactor: number): Facts {
  const { filesystem } = facts;
  const { reading } = filesystem;
  if (reading === undefined) return facts;
  const capacityBytes = Math.floor((reading.capacityBytes / filesystem.sizeBytes) * sizeBytes);
  const usedBytes = Math.min(capacityBytes, Math.ceil(reading.usedBytes * useFactor));
  return {
    ...facts,
    filesystem: {
      ...filesystem,
      sizeBytes,
      reading: withUse(reading, capacityBytes, usedBytes),
      history: useFactor === 1 ? filesystem.history : new ScaledWindows(filesystem.history, useFactor),
    },
  };
}

/** The facts after an extend, with the inodes that it brings: as many for each byte as the last one did, or as there are now. */
export function predictGrowth(facts: Facts, sizeBytes: number): Facts {
  const grown = predictSize(facts, sizeBytes, 1);
  const { reading: before, inodesPerByte } = facts.filesystem;
  const { reading } = grown.filesystem;
  if (reading?.inodesTotal === undefined || before?.inodesTotal === undefined) return grown;
  const perByte = inodesPerByte ?? before.inodesTotal / before.capacityBytes;
  const inodesTotal = before.inodesTotal + Math.floor(perByte * (reading.capacityBytes - before.capacityBytes));
  return { ...grown, filesystem: { ...grown.filesystem, reading: { ...reading, inodesTotal } } };
}

/** The facts with the present capacity and another use, which the windows have seen too. */
export function predictUse(facts: Facts, usedBytes: number): Facts {
  const { filesystem } = facts;
  const { reading } = filesystem;
  if (reading === undefined) return facts;
  return {
    ...facts,
    filesystem: {
      ...filesystem,
      reading: withUse(reading, reading.capacityBytes, usedBytes),
      history: new RaisedWindows(filesystem.history, usedBytes),
    },
  };
}

function withUse(reading: ReceivedReading, capacityBytes: number, usedBytes: number): ReceivedReading {
  return { ...reading, capacityBytes, usedBytes, availableBytes: capacityBytes - usedBytes };
}

class ScaledWindows implements UsageWindows {
  readonly #windows: UsageWindows;
  readonly #factor: number;

  constructor(windows: UsageWindows, factor: number) {
    this.#windows = windows;
    this.#factor = factor;
  }

  maxUsedBytes(windowMs: number, nowMs: number): number | MissingHistory {
    const bytes = this.#windows.maxUsedBytes(windowMs, nowMs);
    return typeof bytes === "number" ? Math.ceil(bytes * this.#factor) : bytes;
  }

  mostSeenBytes(windowMs: number, nowMs: number): number {
    return Math.ceil(this.#windows.mostSeenBytes(windowMs, nowMs) * this.#factor);
  }
}

class RaisedWindows implements UsageWindows {
  readonly #windows: UsageWindows;
  readonly #usedBytes: number;

  constructor(windows: UsageWindows, usedBytes: number) {
    this.#windows = windows;
    this.#usedBytes = usedBytes;
  }

  maxUsedBytes(windowMs: number, nowMs: number): number | MissingHistory {
    const bytes = this.#windows.maxUsedBytes(windowMs, nowMs);
    return typeof bytes === "number" ? Math.max(bytes, this.#usedBytes) : bytes;
  }

  mostSeenBytes(windowMs: number, nowMs: number): number {
    return Math.max(this.#windows.mostSeenBytes(windowMs, nowMs), this.#usedBytes);
  }
}
