// What a new target writes into a layout: the target alone, or for a span the members that it takes as well, in one write, so
// that no node sees the one without the other. Pure.
import type { WantedTarget } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { ConditionReason, HoldReason } from "../../api/reasons.ts";
import { decideMembers, type MemberClassFacts } from "../member/decide-members.ts";
import type { LayoutFields } from "./layout-fields.ts";

/** Why a target is not carried out, for the Filesystem's condition. */
export interface TargetRefusal {
  readonly reason: ConditionReason | Extract<HoldReason, "ShrinkFloorReached" | "QuotaExceeded">;
  readonly message: string;
}

/** The target waits or is not to be had, and nothing is wrong with the volume. */
export function isHold({ reason }: TargetRefusal): boolean {
  return reason === "ShrinkFloorReached" || reason === "QuotaExceeded" || reason.startsWith("WaitingFor");
}

export function targetFields(
  layout: FilesystemLayout,
  wanted: WantedTarget,
  memberClass: MemberClassFacts | undefined,
): { readonly fields: LayoutFields } | { readonly refusal: TargetRefusal } {
  const { members: _ofSpansOnly, ...target } = wanted;
  if (layout.spec.backend !== "span") return { fields: { target } };
  if (memberClass === undefined)
    return { refusal: { reason: "MembersMissing", message: "the layout does not say of which class its members are" } };
  const plan = decideMembers(layout, wanted, memberClass);
  if (plan.do === "hold") return { refusal: { reason: plan.reason, message: plan.message } };
  const { members, nextMember } = plan;
  return { fields: { ...(plan.target === undefined ? {} : { target: plan.target }), members, nextMember } };
}
