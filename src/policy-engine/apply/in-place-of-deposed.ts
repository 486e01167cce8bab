// A deposed leader's target that came too late is refused by operator and agent, and the volume is Stalled for it. Where the present
// leader wants no other size, it puts the present one in its place. Pure.
import { highestEpoch } from "../../api/highest-epoch.ts";
import type { Gathered } from "../gather/gather-facts.ts";
import { targetToStay } from "../gather/policy-shrink.ts";
import type { TargetToApply } from "./apply-plan.ts";

/** Undefined: no target stands that was refused. An ordinary claim's is left: its request is never lowered. */
export function inPlaceOfDeposed(
  { facts, filesystem, layout }: Pick<Gathered, "facts" | "filesystem" | "layout">,
  epoch: number,
): TargetToApply | undefined {
  const { operationInProgress } = facts.filesystem;
  const { target } = filesystem.spec;
  const isRefused = filesystem.status?.conditions?.some(
    ({ type, status, reason }) => type === "Stalled" && status === "True" && reason === "StaleEpoch",
  );
  if (target === undefined || target.epoch >= epoch || isRefused !== true || isUnderWay(layout)) return undefined;
  if (operationInProgress !== undefined || layout.spec.backend === "claim") return undefined;
  return targetToStay({ facts, filesystem, layout }, epoch);
}

/**
 * A raised request, which stands on the layout alone, may wait for its member for minutes. What a deposed leader decided its node does
 * not begin any more.
 */
function isUnderWay(layout: Gathered["layout"]): boolean {
  const { target } = layout.spec;
  if (target === undefined || target.epoch < highestEpoch(layout)) return false;
  return target.decidedAt !== layout.status?.lastOperation?.decidedAt;
}
