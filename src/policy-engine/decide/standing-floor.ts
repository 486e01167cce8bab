// What is known of a floor: a shrink that could not be had is asked for no further than what could, until something has changed that may
// move it. Pure. Each further attempt would move data, and write to the API server, for the same end.
import { formatBytes, MIB } from "../../units/quantity.ts";
import type { Facts, RefusedShrink } from "../facts/facts.ts";

/** Use that has changed by this share of the size, or by … */
const CHANGED_RATIO = 0.01;
/** … at least this, may have moved the floor: less frees no chunk that is worth a step of a shrink. */
const CHANGED_MIN_BYTES = 64 * MIB;
/** What nobody reports (a writer's peak that raised the reserve, data that was written anew elsewhere) is found out after a day. */
const FLOOR_STANDS_MS = 86_400_000;
/** The operator's obstacle may pass by itself, such as a member that is still leaving. */
const REFUSAL_STANDS_MS = 3_600_000;

/** Bytes that the filesystem cannot safely be smaller than, as its last shrink has found; undefined: that is not known any more. */
export function standingFloorBytes({ monotonicMs, filesystem }: Facts): number | undefined {
  const { lastOperation: last, reading, sizeBytes } = filesystem;
  if (last?.kind !== "Shrink") return undefined;
  // A replacement that was taken back has succeeded in no more than that.
  const isOfFloor = last.outcome === "FloorReached" || (last.outcome === "Succeeded" && last.floorBytes !== undefined);
  if (!isOfFloor) return undefined;
  // What stood in the way passes without a change of use.
  if (last.reason === "DataImmovable" && filesystem.immovable === undefined) return undefined;
  if (last.usedBytes === undefined || last.reachedBytes !== sizeBytes || reading === undefined) return undefined;
  const hasChanged = Math.abs(reading.usedBytes - last.usedBytes) >= changeBytes(sizeBytes);
  if (hasChanged || !isRecent(monotonicMs - last.endedAtMs, FLOOR_STANDS_MS)) return undefined;
  const { floorBytes = sizeBytes, askedBytes = sizeBytes } = last;
  // One that was asked for about its floor has not reached that either: the rest is not worth asking for.
  return floorBytes - askedBytes >= changeBytes(sizeBytes) ? floorBytes : sizeBytes;
}

/** Why a shrink to about this size is not asked for again; undefined: it was not refused, or not for this size. */
export function standingRefusal({ nowMs, filesystem }: Facts, sizeBytes: number): RefusedShrink | undefined {
  const refused = filesystem.refusedShrink;
  if (refused === undefined || refused.fromBytes !== filesystem.sizeBytes) return undefined;
  const isAsRefused = sizeBytes > refused.sizeBytes - changeBytes(filesystem.sizeBytes);
  return isAsRefused && isRecent(nowMs - refused.decidedAtMs, REFUSAL_STANDS_MS) ? refused : undefined;
}

/** By whatever clock it was dated: one that is ahead holds nothing for longer. */
function isRecent(agoMs: number, standsMs: number): boolean {
  return Math.abs(agoMs) < standsMs;
}

/** What has to change first, for people. */
export function describeChange(sizeBytes: number): string {
  return `its use changes by ${formatBytes(changeBytes(sizeBytes))}, its size changes, or a day has passed`;
}

function changeBytes(sizeBytes: number): number {
  return Math.max(CHANGED_MIN_BYTES, sizeBytes * CHANGED_RATIO);
}
