// Whether a filesystem that has just been unmounted is made smaller now. Pure; the same checks as for a mounted one, and the target's own
// end of time: what was decided for a window is not done after it.
import { decideOperation, type OperationDecision, type OperationFacts } from "./decide-operation.ts";

export type UnmountedShrinkDecision = OperationDecision & { readonly act: "Start" };

/** Undefined: it stays as it is. */
export function decideUnmountedShrink(facts: OperationFacts, nowMs: number): UnmountedShrinkDecision | undefined {
  const { shrinksOnlyUnmounted, mounted, layoutKnown, target } = facts;
  if (!shrinksOnlyUnmounted || mounted || !layoutKnown || target?.notAfter === undefined) return undefined;
  // A time that cannot be read is no time.
  if (!(nowMs < Date.parse(target.notAfter))) return undefined;
  const decision = decideOperation({ ...facts, mounted: true, shrinksOnlyUnmounted: false });
  return decision.act === "Start" && decision.kind === "Shrink" ? decision : undefined;
}
