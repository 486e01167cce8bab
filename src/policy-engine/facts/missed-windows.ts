// Shrinks that their windows ended before a first step was done, such as a member's removal: the data that has moved by then moves back, or
// is moved again. Two in a row are evidence that the window is too short, until what they were decided on is other. Pure.
import { MISSED_WINDOWS_LIMIT } from "../../contracts/kinds/filesystem.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import type { Facts, MissedWindows } from "./facts.ts";

/** Use that has changed by this share asks for another try. */
const CHANGED_RATIO = 0.05;

/** Whether nothing that it was decided on has changed since. */
export function isStanding(
  missed: MissedWindows,
  { filesystem }: Pick<Facts, "filesystem">,
  policy: CompiledPolicy,
): boolean {
  const usedBytes = filesystem.reading?.usedBytes ?? Number.NaN;
  return (
    missed.policy === policy.key &&
    missed.policyGeneration === policy.generation &&
    missed.sizeBytes === filesystem.sizeBytes &&
    Math.abs(usedBytes - missed.usedBytes) < CHANGED_RATIO * missed.usedBytes
  );
}

interface StoppedShrink {
  readonly decidedAt: string;
  readonly fromBytes: number;
  /** Its node has begun it, or what it needs first is being made. That it was asked for is not enough. */
  readonly isBegun: boolean;
}

/** With one that is stopped now; the same as before where it is known. */
export function missedAgain(
  before: MissedWindows | undefined,
  facts: Pick<Facts, "filesystem">,
  policy: CompiledPolicy,
  { decidedAt, fromBytes, isBegun }: StoppedShrink,
): MissedWindows | undefined {
  const { reading, sizeBytes } = facts.filesystem;
  // One that was never begun says nothing of the window, nor does one that has come further.
  if (before?.decidedAt.includes(decidedAt) === true || reading === undefined || !isBegun || sizeBytes < fromBytes)
    return before;
  // A replacement has made it larger for a while.
  const asDecided = { filesystem: { ...facts.filesystem, sizeBytes: fromBytes } };
  const known = before !== undefined && isStanding(before, asDecided, policy) ? before.decidedAt : [];
  return {
    sizeBytes: fromBytes,
    usedBytes: reading.usedBytes,
    decidedAt: [...known, decidedAt].slice(-MISSED_WINDOWS_LIMIT),
    policy: policy.key,
    policyGeneration: policy.generation,
  };
}
