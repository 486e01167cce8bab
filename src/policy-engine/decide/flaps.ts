// Flaps: the first extend by use within a day after a shrink, at no more use than there was in the day before that shrink. The shrink was for
// nothing, and the second one within a week has the filesystem keep the room of its daily peak for a week. Pure.
import type { Facts } from "../facts/facts.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";

const DAY_MS = 86_400_000;
const WEEK_MS = 7 * DAY_MS;
/** Who writes less wants it to breathe, and has no flaps counted. */
const COUNTED_FROM_MS = 60_000;

/** Whether an extend that is made now, for what is in use, takes back the last shrink. */
export function isFlap({ flaps, changes, filesystem, monotonicMs }: Facts, policy: CompiledPolicy): boolean {
  if (policy.shrink.stabilizationMs < COUNTED_FROM_MS) return false;
  const lastShrinkMs = changes.shrinksAtMs.at(-1) ?? Number.NEGATIVE_INFINITY;
  const usedBytes = filesystem.reading?.usedBytes ?? Number.POSITIVE_INFINITY;
  const isCounted = (flaps?.atMs.at(-1) ?? Number.NEGATIVE_INFINITY) > lastShrinkMs;
  return !isCounted && monotonicMs - lastShrinkMs < DAY_MS && usedBytes <= (flaps?.peakBeforeShrinkBytes ?? -1);
}

/** Of which time nothing is made smaller than the peak needs: the policy's stabilization, or a day while the filesystem flaps. */
export function stabilizationMsOf(facts: Facts, policy: CompiledPolicy): number {
  const { stabilizationMs } = policy.shrink;
  return raisedUntilMs(facts, policy) === undefined ? stabilizationMs : Math.max(stabilizationMs, DAY_MS);
}

/** On the monotonic clock; undefined: the policy's own stabilization holds. */
export function raisedUntilMs({ flaps, monotonicMs }: Facts, { shrink }: CompiledPolicy): number | undefined {
  if (flaps === undefined || shrink.stabilizationMs < COUNTED_FROM_MS || shrink.stabilizationMs >= DAY_MS)
    return undefined;
  const { atMs } = flaps;
  const second = atMs.findLast((at, index) => at - (atMs[index - 1] ?? Number.NEGATIVE_INFINITY) < WEEK_MS);
  return second !== undefined && monotonicMs < second + WEEK_MS ? second + WEEK_MS : undefined;
}
