// What a new target writes into a layout: the target alone, or for a span the members that it takes as well, in one write, so
// that no node sees the one without the other. Pure.
import type { WantedTarget } from "../../api/filesystem.ts";
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { highestEpoch } from "../../api/highest-epoch.ts";
import type { ConditionReason, HoldReason } from "../../api/reasons.ts";
import { parseQuantity } from "../../units/quantity.ts";
import { decideMembers, type MemberClassFacts } from "../member/decide-members.ts";
import { after } from "../member/decide-replacement.ts";
import { growthRecord, type VainGrowth, vainGrowth } from "../member/member-growth.ts";
import { roundingText } from "../member/member-rounding.ts";
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

export type DecidedFields =
  | { readonly fields: LayoutFields }
  | {
      readonly refusal: TargetRefusal;
      /** Where a growth was in vain before: the members as they are, and that it failed. */
      readonly settled?: LayoutFields | undefined;
    };

/** `growthTimeMs`: the date of what is remembered of its members' growth. */
export function targetFields(
  layout: FilesystemLayout,
  wanted: WantedTarget,
  memberClass: MemberClassFacts | undefined,
  growthTimeMs: number,
): DecidedFields {
  const { members: _ofSpansOnly, ...target } = wanted;
  if (layout.spec.backend !== "span") return { fields: { target } };
  if (memberClass === undefined)
    return { refusal: { reason: "MembersMissing", message: "the layout does not say of which class its members are" } };
  const vain = vainGrowth(layout);
  const growthFailed = memberClass.growthFailed || vain !== undefined;
  const counted = vain === undefined ? layout : withMembers(layout, vain.members);
  const plan = decideMembers(counted, wanted, { ...memberClass, growthFailed });
  if (plan.do === "hold")
    return {
      refusal: { reason: plan.reason, message: plan.message },
      ...(vain && { settled: asTheyAre(layout, vain, memberClass, growthTimeMs) }),
    };
  const { members, nextMember, rounding } = plan;
  return {
    fields: {
      ...(plan.target === undefined ? {} : { target: plan.target }),
      growth: growthRecord(layout, members, { ...memberClass, vain, growthFailed }, growthTimeMs),
      ...(rounding && { rounding: roundingText(rounding, growthTimeMs) }),
      members,
      nextMember,
    },
  };
}

/**
 * After a growth in vain: the members as they are, that it failed, and, where another way leads to the size that was wanted, that way
 * at once. Where only growing is left, the policy-engine says when it is tried again. Undefined: no growth was in vain.
 */
export function fieldsAfterVainGrowth(
  layout: FilesystemLayout,
  memberClass: MemberClassFacts | undefined,
  growthTimeMs: number,
): LayoutFields | undefined {
  const vain = vainGrowth(layout);
  if (vain === undefined) return undefined;
  const { target } = layout.spec;
  const { members } = vain;
  const settled = asTheyAre(layout, vain, memberClass, growthTimeMs);
  const isOfTarget = target !== undefined && layout.status?.lastOperation?.decidedAt === target.decidedAt;
  if (!isOfTarget || target.epoch < highestEpoch(layout)) return settled;
  const again = targetFields(layout, { ...target, decidedAt: after(target.decidedAt) }, memberClass, growthTimeMs);
  if ("refusal" in again) return settled;
  const sizes = new Map(members.map(({ name, size }) => [name, parseQuantity(size ?? "0")]));
  const grows = again.fields.members?.some(
    ({ name, size }) => parseQuantity(size ?? "0") > (sizes.get(name) ?? Number.POSITIVE_INFINITY),
  );
  return grows === true ? settled : again.fields;
}

function asTheyAre(
  layout: FilesystemLayout,
  vain: VainGrowth,
  memberClass: MemberClassFacts | undefined,
  growthTimeMs: number,
): LayoutFields {
  const { members } = vain;
  const known = { growthFailures: memberClass?.growthFailures, growthFailed: true, vain };
  return { members, growth: growthRecord(layout, members, known, growthTimeMs) };
}

function withMembers(layout: FilesystemLayout, members: MemberSpec[]): FilesystemLayout {
  return { ...layout, spec: { ...layout.spec, members } };
}
