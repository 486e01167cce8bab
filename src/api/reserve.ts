// What a shrink always leaves available. The engine plans with it and the agent watches over it: one formula, so that what one
// promises is what the other keeps.
import { MIB } from "../units/quantity.ts";

const RESERVE_MIN_BYTES = 256 * MIB;
/** How long a step of a shrink may take to be cancelled, with the writer at its peak. */
const RESERVE_WRITING_SECONDS = 2;

/** Whole bytes. `peakWriteBytesPerSecond` is the writer's highest rate of the last 60 s. */
export function reserveBytes(minAvailableBytes: number, peakWriteBytesPerSecond: number): number {
  return Math.max(minAvailableBytes, RESERVE_MIN_BYTES, Math.ceil(RESERVE_WRITING_SECONDS * peakWriteBytesPerSecond));
}
