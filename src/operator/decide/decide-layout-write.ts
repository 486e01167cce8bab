// What the policy-engine wants of a filesystem, as one write of its layout, which is what a node acts on: the target, with the members
// that it takes, so that no node sees the one without the other, and the trims; and whether a merge of members begins, goes on, waits, or
// ends without one. Pure.

import { highestEpoch } from "../../contracts/formulas/decision-order.ts";
import { filesystemSizeBytes } from "../../contracts/formulas/filesystem-size.ts";
import { CONSOLIDATION_LIMIT_MS, type Filesystem, type WantedTarget } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout, MemberSpec } from "../../contracts/kinds/filesystem-layout.ts";
import { nodeTarget } from "../../contracts/kinds/target.ts";
import type { TrimRequest } from "../../contracts/kinds/trim.ts";
import { parseQuantity } from "../../contracts/quantities/quantity.ts";
import type { ConditionReason, HoldReason } from "../../contracts/reasons.ts";
import type { LayoutFields } from "../volumes/layout-fields.ts";
import { decideTarget } from "./decide-target.ts";
import { isAtRest, isRemoving } from "./layout-facts.ts";
import { hasBegun, isOnlyOrdered, type MergeWay, unchanged } from "./members/decide-consolidation.ts";
import { withRefusals } from "./members/decide-member-state.ts";
import { decideMembers, type MemberClassFacts } from "./members/decide-members.ts";
import { after, replacingMember, withoutFormerMarks } from "./members/decide-replacement.ts";
import { growthRecord, roundingText, type VainGrowth, vainGrowth } from "./members/member-growth.ts";

export interface LayoutWriteFacts {
  /** Undefined: of another backend, or the layout does not say of which class its members are. */
  readonly memberClass: MemberClassFacts | undefined;
  /** The date of what is remembered of its members' growth. */
  readonly growthTimeMs: number;
  readonly merge: MergeFacts;
}

export interface LayoutWrite {
  /** Undefined: nothing to write. */
  readonly fields?: LayoutFields | undefined;
  /** Why a target is not carried out. */
  readonly refusal?: TargetRefusal;
  /** Members are merged from now on, in the turn that was taken for it. */
  readonly beginsMerge?: boolean;
}

export function decideLayoutWrite(
  live: FilesystemLayout,
  filesystem: Filesystem,
  facts: LayoutWriteFacts,
): LayoutWrite {
  const layout = withRefusals(live);
  const write = targetWrite(layout, filesystem, facts);
  const trim = decideTrim(layout, filesystem);
  return trim.do === "keep" ? write : { ...write, fields: { ...write.fields, trim: trim.trim } };
}

function targetWrite(
  layout: FilesystemLayout,
  filesystem: Filesystem,
  { memberClass, growthTimeMs, merge }: LayoutWriteFacts,
): LayoutWrite {
  const plan = decideTarget(layout, filesystem);
  switch (plan.do) {
    case "keep":
      return {};
    case "refuse":
      return { refusal: { reason: "StaleEpoch", message: plan.message } };
    case "withdraw":
      return { fields: { members: plan.members } };
    case "settle-growth":
      return { fields: fieldsAfterVainGrowth(layout, memberClass, growthTimeMs) };
    case "copy": {
      const merging = decideMerge(layout, plan.target, merge);
      if (!("mergeBy" in merging)) return merging;
      const decided = targetFields(layout, plan.target, memberClass && { ...memberClass, ...merging }, growthTimeMs);
      if ("fields" in decided) return { ...decided, beginsMerge: merging.mergeBy !== undefined };
      return { refusal: decided.refusal, fields: decided.settled };
    }
  }
}

export type TrimPlan = { readonly do: "keep" } | { readonly do: "copy"; readonly trim: TrimRequest | undefined };

/** Members of a span lie on other drivers' volumes, which are not paid for by the block. */
const TRIMMED_BACKENDS: readonly string[] = ["loop", "lvm"];

/** Whether the layout's trims are to become those that the policy-engine asks for. */
export function decideTrim(layout: FilesystemLayout, filesystem: Filesystem): TrimPlan {
  const { backend = "", volumeMode } = layout.spec;
  // Only its user knows what a raw block volume holds.
  if (isRemoving(layout) || volumeMode === "Block" || !TRIMMED_BACKENDS.includes(backend)) return { do: "keep" };
  const { trim } = filesystem.spec;
  return trim?.every === layout.spec.trim?.every ? { do: "keep" } : { do: "copy", trim };
}

/** Why a target is not carried out, for the Filesystem's condition. */
export interface TargetRefusal {
  readonly reason: ConditionReason | Extract<HoldReason, "ShrinkFloorReached" | "QuotaExceeded">;
  readonly message: string;
}

/** The target waits or is not to be had, and nothing is wrong with the volume. */
export function isHold({ reason }: TargetRefusal): boolean {
  return reason === "ShrinkFloorReached" || reason === "QuotaExceeded" || reason.startsWith("WaitingFor");
}

type DecidedFields =
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
  if (layout.spec.backend !== "span") return { fields: { target: nodeTarget(wanted) } };
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

/** Whether a filesystem's members may be merged now. It holds for the node that has the filesystem then. */
export interface MergeTurn {
  readonly node: string | undefined;
  /**
   * The way to merge; or "wait": another filesystem is merged for the pod or on the node, or pods were not read yet; or "drop": no
   * pod waits for it, or an obstacle forbids the merge.
   */
  readonly way: MergeWay | "wait" | "drop";
}

export interface MergeFacts {
  /** Undefined: no turn was taken, since no merge was to begin. */
  readonly turn: MergeTurn | undefined;
  /** No pod waits for it any longer. */
  readonly isPodGone: boolean;
  readonly nowMs: number;
}

/** Whether it is a merge that has not begun: only then it needs a turn. */
export function needsTurn(layout: FilesystemLayout, wanted: WantedTarget): boolean {
  return wanted.members !== undefined && !hasBegun(layout, wanted);
}

/** `mergeBy`: how members are merged from now on; undefined: the target merges nothing, or has begun to. */
export function decideMerge(
  layout: FilesystemLayout,
  wanted: WantedTarget,
  { turn, isPodGone, nowMs }: MergeFacts,
): DecidedFields | { readonly mergeBy: MergeWay | undefined } {
  const sizeBytes = filesystemSizeBytes(layout);
  const isLate = nowMs - Date.parse(wanted.decidedAt) >= CONSOLIDATION_LIMIT_MS;
  // One that is mounted nowhere keeps it as the spare that it is: that takes no slot where it is mounted next.
  if (wanted.members !== undefined && isOnlyOrdered(layout, wanted) && sizeBytes !== undefined && isAtRest(layout))
    return isPodGone || isLate ? { fields: withdrawn(layout, wanted, sizeBytes) } : { mergeBy: undefined };
  if (!needsTurn(layout, wanted)) return { mergeBy: undefined };
  const way = turn?.node === layout.spec.nodeName ? turn?.way : undefined;
  if (way === "grow" || way === "replace") return { mergeBy: way };
  if (way === "drop" && sizeBytes !== undefined) return { fields: withdrawn(layout, wanted, sizeBytes) };
  const message = "members are merged for one pod and on one node at a time: it is tried again";
  return { refusal: { reason: "WaitingForMember", message } };
}

/**
 * Carries the decision out at the present size: no pod waits for it, or there is no way to merge. The member made for
 * it is removed.
 */
function withdrawn(
  layout: FilesystemLayout,
  { epoch, decidedAt, size, from }: WantedTarget,
  sizeBytes: number,
): LayoutFields {
  const target = unchanged({ size, from, epoch, decidedAt }, sizeBytes);
  const made = replacingMember(layout, target);
  const members = withoutFormerMarks(layout, layout.spec.members ?? [], decidedAt).map(
    (one): MemberSpec => (one.name === made?.name ? { ...one, state: "Removed" } : one),
  );
  return { target, members };
}
