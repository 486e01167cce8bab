// Which members leave where there is a choice: by their sizes, and by what their node has said last that they hold. Pure. Nothing is known
// of one that an older agent reports; then sizes alone decide.
import { chunkRoomBytes } from "../../../contracts/formulas/reserve.ts";
import type { SizeTarget } from "../../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../../contracts/kinds/filesystem-layout.ts";
import { parseQuantity } from "../../../contracts/quantities/quantity.ts";
import { replacingMember } from "./decide-replacement.ts";
import { type Share, sumOf } from "./member-bytes.ts";

/** For a target that is smaller than the filesystem; none where it gives back less than any whole member has. */
export function setToLeave(layout: FilesystemLayout, target: SizeTarget, staying: readonly Share[]): Share[] {
  const surplusBytes = sumOf(staying) - parseQuantity(target.size);
  const made = replacingMember(layout, target);
  return made === undefined
    ? largestSet(staying, surplusBytes, layout.status?.immovable === undefined)
    : largestSetBeside(made.name, staying, surplusBytes);
}

/**
 * The members, never all, whose bytes together are the most that fit. Sets that can leave go before others: the rest has room for what they
 * hold, and where data is not moved they hold nothing. Of equal ones that which holds the least, then that of those that came last.
 */
export function largestSet(shares: readonly Share[], limitBytes: number, mayMove: boolean): Share[] {
  const isBetter = (one: Share[], other: Share[]): boolean =>
    isFirst(
      Number(canLeave(shares, one, mayMove)) - Number(canLeave(shares, other, mayMove)),
      sumOf(one) - sumOf(other),
      heldBytes(other) - heldBytes(one),
    );
  return best(fittingSets(shares, limitBytes), isBetter) ?? [];
}

/** The same without `made`, which is to take the place of the largest: that one leaves if its node can let it, whatever it holds. */
export function largestSetBeside(made: string, shares: readonly Share[], limitBytes: number): Share[] {
  const sets = fittingSets(shares, limitBytes).filter((set) => set.every(({ member }) => member.name !== made));
  const isBetter = (one: Share[], other: Share[]): boolean =>
    isFirst(sumOf(one) - sumOf(other), heldBytes(other) - heldBytes(one));
  return best(sets, isBetter) ?? [];
}

/**
 * So many that the filesystem does with `count` members. Sets that it has `sizeBytes` without go before others: what grew, or came, for them
 * is there. Then that which costs the least: room like theirs is made elsewhere, and what they hold is moved.
 */
export function cheapestSet(shares: readonly Share[], count: number, sizeBytes: number): Share[] {
  const sets = setsOf(shares).filter((set) => set.length === shares.length - count);
  const isEnough = (set: Share[]): boolean => sumOf(shares) - sumOf(set) >= sizeBytes;
  const isBetter = (one: Share[], other: Share[]): boolean =>
    isFirst(Number(isEnough(one)) - Number(isEnough(other)), costOf(other) - costOf(one));
  return (best(sets, isBetter) ?? []).reverse();
}

function costOf(set: readonly Share[]): number {
  return sumOf(set) + heldBytes(set);
}

/** Of two sets that are alike that of those that came last is first. */
function setsOf(shares: readonly Share[]): Share[][] {
  const latestFirst = [...shares].reverse();
  const sets: Share[][] = [];
  for (let choice = 1; choice < 2 ** shares.length; choice += 1)
    sets.push(latestFirst.filter((_share, index) => (choice & (1 << index)) !== 0));
  return sets;
}

function fittingSets(shares: readonly Share[], limitBytes: number): Share[][] {
  return setsOf(shares).filter((set) => set.length < shares.length && sumOf(set) <= limitBytes);
}

function best(sets: readonly Share[][], isBetter: (one: Share[], other: Share[]) => boolean): Share[] | undefined {
  return sets.reduce<Share[] | undefined>(
    (found, set) => (found === undefined || isBetter(set, found) ? set : found),
    undefined,
  );
}

/** By the first of these that is not 0. */
function isFirst(...differences: readonly number[]): boolean {
  return (differences.find((difference) => difference !== 0) ?? 0) > 0;
}

/** As their node decides it (decide-removal.ts), by figures that may be a little old: it decides, whatever is asked for. */
function canLeave(shares: readonly Share[], set: readonly Share[], mayMove: boolean): boolean {
  if (shares.some(({ allocatedBytes }) => allocatedBytes === undefined)) return true;
  const movedBytes = heldBytes(set);
  if (!mayMove && movedBytes > 0) return false;
  const leftBytes = sumOf(shares) - sumOf(set);
  const roomBytes = leftBytes - (heldBytes(shares) - movedBytes);
  return roomBytes >= movedBytes + chunkRoomBytes(leftBytes, leftBytes + Math.min(...set.map(({ bytes }) => bytes)));
}

/** 0 where it is not known of one of them. */
function heldBytes(set: readonly Share[]): number {
  return set.reduce((sum, { allocatedBytes = Number.NaN }) => sum + allocatedBytes, 0) || 0;
}
