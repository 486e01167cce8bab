// How many bytes must stay available: for a writer (minAvailable), and after a shrink (the reserve).
import { reserveBytes as reserveOf } from "../../api/reserve.ts";
import type { FilesystemFacts } from "../facts/facts.ts";
import type { SizeLimits } from "../policies/compiled-policy.ts";

const DEFAULT_CAPACITY_RATIO = 0.05;
const DEFAULT_GROWTH_SECONDS = 5;
const MAX_CAPACITY_RATIO = 0.2;

/** The available bytes whose crossing is itself an Extend: as written, else 5% of capacity or 5 s of growth, at most 20%. */
export function minAvailableBytes(limits: SizeLimits, capacityBytes: number, growthBytesPerSecond = 0): number {
  if (limits.minAvailableBytes !== undefined) return limits.minAvailableBytes;
  const wanted = Math.max(DEFAULT_CAPACITY_RATIO * capacityBytes, DEFAULT_GROWTH_SECONDS * growthBytesPerSecond);
  return Math.ceil(Math.min(wanted, MAX_CAPACITY_RATIO * capacityBytes));
}

/** What a shrink always leaves available. Counts minAvailable at the present capacity, as the agent's watcher does. */
export function reserveBytes(limits: SizeLimits, capacityBytes: number, filesystem: FilesystemFacts): number {
  const leastBytes = minAvailableBytes(limits, capacityBytes, filesystem.growthBytesPerSecond);
  return reserveOf(leastBytes, filesystem.peakWriteBytesPerSecond ?? 0);
}
