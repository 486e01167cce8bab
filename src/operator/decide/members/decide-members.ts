// Which members a span volume shall have for a new target: decided in the write that carries the target. Pure. An extend covers
// what is missing by growing the last member in place or by a new one; a shrink gives whole members back, or replaces the largest.
import { asksToStay, type SizeTarget, type WantedTarget } from "../../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout, MemberSpec } from "../../../contracts/kinds/filesystem-layout.ts";
import { isEmergencySince } from "../../../contracts/kinds/grant.ts";
import { formatBytes, formatQuantity, parseQuantity } from "../../../contracts/quantities/quantity.ts";
import type { ConditionReason, HoldReason } from "../../../contracts/reasons.ts";
import { isAtRest, isBeside, isOfSize, isPart, unnamedMembers } from "../layout-facts.ts";
import { newMember, nextMemberOf, replacement, withoutThese, withSize, withState } from "./changed-members.ts";
import {
  type ConsolidationTarget,
  type MergeWay,
  nextConsolidationStep,
  unchanged,
  withoutFormerRemoval,
} from "./decide-consolidation.ts";
import { nextExtendStep, withoutRemovals } from "./decide-extend.ts";
import { setToLeave } from "./decide-leaving.ts";
import {
  nextReplacementStep,
  type ReplacementStep,
  replacingMember,
  withoutFormerMarks,
} from "./decide-replacement.ts";
import {
  type MemberQuota,
  memberBytesOf,
  quotaMessage,
  refusedBytesOf,
  type Share,
  sharesOf,
  stays,
  sumOf,
} from "./member-bytes.ts";
import type { GrowthKnown, Rounding } from "./member-growth.ts";
import type { MemberRules } from "./member-rules.ts";

export interface MemberClassFacts extends GrowthKnown {
  readonly rules: MemberRules;
  /** Whether the members' class says allowVolumeExpansion. */
  readonly mayGrow: boolean;
  /** How much larger than asked for its members have been made lately; absent: nothing is remembered. */
  readonly roundings?: readonly Rounding[] | undefined;
  /** How a merge that begins gets its room; absent: as the rest says. */
  readonly mergeBy?: MergeWay | undefined;
  /** Undefined: no quota says how much of the class the claim's namespace may have. */
  readonly quota?: MemberQuota | undefined;
}

type MemberHold =
  | Extract<HoldReason, "ShrinkFloorReached" | "QuotaExceeded">
  | Extract<ConditionReason, "MemberLimitReached" | "MembersMissing" | "WaitingForNode" | "WaitingForMember">;

export type MembersPlan =
  | {
      readonly do: "change";
      readonly members: MemberSpec[];
      /** Absent: it is carried on later. */
      readonly target?: SizeTarget;
      readonly nextMember: number;
      /** How much larger than asked for a member was made that is dropped for that reason: to be remembered. */
      readonly rounding?: Rounding | undefined;
    }
  | { readonly do: "hold"; readonly reason: MemberHold; readonly message: string };

export function decideMembers(layout: FilesystemLayout, target: WantedTarget, facts: MemberClassFacts): MembersPlan {
  const shares = sharesOf(layout);
  const unnamed = unnamedMembers(layout).join(", ");
  if (unnamed !== "")
    return {
      do: "hold",
      reason: "MembersMissing",
      message: `the filesystem has ${unnamed}, which its layout does not name`,
    };
  const unknown = shares
    .filter(({ member, bytes }) => bytes === 0 && member.state !== "Spare")
    .map(({ member }) => member.name);
  if (unknown.length > 0)
    return {
      do: "hold",
      reason: "WaitingForNode",
      message: `the size of ${unknown.join(", ")} is not known before its node reports`,
    };
  const plan = planFor(layout, target, shares, facts);
  return withoutFormerReplacement(layout, overQuota(layout, plan, facts.quota) ?? plan, target);
}

function planFor(
  layout: FilesystemLayout,
  wanted: WantedTarget,
  shares: readonly Share[],
  facts: MemberClassFacts,
): MembersPlan {
  const { members, ...target } = wanted;
  if (members !== undefined) return consolidate(layout, { ...target, members }, facts);
  if (asksToStay(target)) return stay(layout, target, shares);
  const wantedBytes = parseQuantity(target.size);
  // An extend that something larger came before, an emergency for one, gives nothing back.
  const isShrink = wantedBytes < sumOf(shares.filter(stays)) && wantedBytes < parseQuantity(target.from);
  return isShrink ? shrink(layout, target, shares, facts) : extend(layout, target, shares, facts);
}

/** The same size of fewer members. */
function consolidate(before: FilesystemLayout, target: ConsolidationTarget, facts: MemberClassFacts): MembersPlan {
  const layout = withoutFormerRemoval(before, target);
  const shares = sharesOf(layout);
  const step = nextConsolidationStep(layout, target, mergeWay(facts), facts);
  const members = shares.map(({ member }) => member);
  const nextMember = nextMemberOf(layout);
  switch (step.do) {
    case "none":
      return { do: "change", members, target: step.target, nextMember };
    case "grow":
      return { do: "change", members: withSize(members, step.name, step.sizeBytes), target: step.target, nextMember };
    case "order":
    case "add":
    case "wait":
      return takingIn(layout, target, shares, step);
    case "drop":
      return {
        do: "change",
        members: withState(members, step.name, "Removed"),
        target: step.target,
        nextMember,
        rounding: step.rounding,
      };
    case "leave":
      return { do: "change", members: withoutThese(members, step.names), target: step.target, nextMember };
    case "give-up":
      return { do: "hold", reason: "ShrinkFloorReached", message: step.message };
  }
}

/** Whether the class and its members' class let a member become larger. */
export function mergeWay({ rules, mayGrow, growthFailed, mergeBy }: Omit<MemberClassFacts, "quota">): MergeWay {
  if (mergeBy !== undefined) return mergeBy;
  return mayGrow && !growthFailed && rules.strategy !== "AddMember" ? "grow" : "replace";
}

/** The same whether the new one takes the place of a larger member or of smaller ones. */
function takingIn(
  layout: FilesystemLayout,
  target: SizeTarget,
  shares: readonly Share[],
  step: Extract<ReplacementStep, { readonly do: "order" | "add" | "wait" }>,
): MembersPlan {
  const members = shares.map(({ member }) => member);
  const nextMember = nextMemberOf(layout);
  switch (step.do) {
    case "order":
      return { do: "change", members: [...members, replacement(layout, step, target)], nextMember: nextMember + 1 };
    case "add":
      return { do: "change", members: withState(members, step.name, "Present"), target: step.target, nextMember };
    case "wait":
      return { do: "hold", reason: "WaitingForMember", message: step.message };
  }
}

function withoutFormerReplacement(layout: FilesystemLayout, plan: MembersPlan, target: WantedTarget): MembersPlan {
  const isStop = target.members === undefined && asksToStay(target);
  const before = plan.do === "change" ? plan.members : (layout.spec.members ?? []);
  const isNeedless = ({ name }: MemberSpec): boolean =>
    isAtRest(layout) && isBeside(layout, name) && plan.do === "change" && changesNothing(layout, plan);
  const members = withoutFormerMarks(layout, before, target.decidedAt).map((member, index): MemberSpec => {
    const { [index]: marked = member } = before;
    if (member !== marked && isNeedless(member)) return { ...member, state: "Removed" };
    // Once its node is at rest, it leaves again if it holds nothing (leftByStop), or is one like any other.
    return isStop && isPart(marked) ? marked : member;
  });
  if (members.every((member, index) => member === before[index])) return plan;
  return plan.do === "change" ? { ...plan, members } : { do: "change", members, nextMember: nextMemberOf(layout) };
}

/**
 * Whether the plan has the present size and no member leaves. Then a member that its node was to take in for a deposed
 * leader never comes in, and no member leaves for it.
 */
function changesNothing(
  layout: FilesystemLayout,
  { members, target }: Extract<MembersPlan, { do: "change" }>,
): boolean {
  const isPresentSize = target !== undefined && isOfSize(layout, target.size);
  return isPresentSize && members.every(({ state }) => state !== "Removed");
}

function overQuota(
  layout: FilesystemLayout,
  plan: MembersPlan,
  quota: MemberQuota | undefined,
): MembersPlan | undefined {
  if (plan.do === "hold" || quota === undefined) return undefined;
  const wantedBytes = memberBytesOf({ ...layout, spec: { ...layout.spec, members: plan.members } });
  if (wantedBytes <= memberBytesOf(layout)) return undefined;
  const message = quotaMessage(quota, wantedBytes, refusedBytesOf(layout));
  return message === undefined ? undefined : { do: "hold", reason: "QuotaExceeded", message };
}

function extend(
  layout: FilesystemLayout,
  target: SizeTarget,
  shares: readonly Share[],
  { rules, ...growth }: MemberClassFacts,
): MembersPlan {
  const sizeBytes = parseQuantity(target.size);
  const isEnough = sizeBytes <= sumOf(shares.filter(stays));
  const kept = isEnough ? shares : withoutRemovals(layout, shares);
  const members = kept.map(({ member }) => member);
  const nextMember = nextMemberOf(layout);
  const step = nextExtendStep(layout, sizeBytes, kept, rules, growth);
  switch (step.do) {
    case "none":
      return { do: "change", members, target, nextMember };
    case "take-spare":
      return { do: "change", members: withState(members, step.name, "Present"), target, nextMember };
    case "grow":
      return { do: "change", members: withSize(members, step.name, step.sizeBytes), target, nextMember };
    case "add": {
      const added = newMember(layout.metadata.name, nextMember, step.sizeBytes);
      return { do: "change", members: [...members, added], target, nextMember: nextMember + 1 };
    }
    case "hold":
      return { do: "hold", reason: "MemberLimitReached", message: step.message };
  }
}

/** A member that a removal has not taken out stays. For one that has left since, no other is made. */
function stay(layout: FilesystemLayout, target: SizeTarget, shares: readonly Share[]): MembersPlan {
  const wantedBytes = parseQuantity(target.size);
  const kept = wantedBytes <= sumOf(shares.filter(stays)) ? shares : withoutRemovals(layout, shares);
  const sizeBytes = Math.min(wantedBytes, sumOf(kept.filter(stays)));
  const members = kept.map(({ member }) => member);
  return { do: "change", members, target: unchanged(target, sizeBytes), nextMember: nextMemberOf(layout) };
}

function shrink(
  layout: FilesystemLayout,
  target: SizeTarget,
  shares: readonly Share[],
  { rules, roundings }: MemberClassFacts,
): MembersPlan {
  const staying = shares.filter(stays);
  const isReplacing = replacingMember(layout, target) !== undefined;
  // Of what an emergency has needed since nothing is given back.
  const isSurpassed = isEmergencySince(layout, target.decidedAt) && !isOfSize(layout, target.from);
  if (isSurpassed && !isReplacing) return changedMeanwhile(target);
  if (setToLeave(layout, target, staying).length > 0 && !isReplacing) return giveBack(layout, target, shares);
  const step = nextReplacementStep(layout, target, staying, rules, roundings);
  switch (step.do) {
    case "none":
      return isReplacing ? changedMeanwhile(target) : giveBack(layout, target, shares, step.why);
    case "drop":
      return dropping(layout, shares, step);
    case "keep":
      return keeping(layout, shares, step, target);
    case "order":
    case "add":
    case "wait":
      return takingIn(layout, target, shares, step);
    case "leave":
      // The small one keeps its mark: should the large one find no way out, that is what is taken back.
      return giveBack(layout, { ...target, from: step.from }, shares);
  }
}

/** It waits for this target from now on. */
function keeping(
  layout: FilesystemLayout,
  shares: readonly Share[],
  { name, member: replaced }: Extract<ReplacementStep, { readonly do: "keep" }>,
  { decidedAt }: SizeTarget,
): MembersPlan {
  const members = shares.map(({ member }) =>
    member.name === name ? { ...member, replaces: { member: replaced, decidedAt } } : member,
  );
  return { do: "change", members, nextMember: nextMemberOf(layout) };
}

/** The target is planned again without it. */
function dropping(
  layout: FilesystemLayout,
  shares: readonly Share[],
  { name, rounding }: Extract<ReplacementStep, { readonly do: "drop" }>,
): MembersPlan {
  const members = withState(
    shares.map(({ member }) => member),
    name,
    "Removed",
  );
  return { do: "change", members, nextMember: nextMemberOf(layout), rounding };
}

function changedMeanwhile({ from }: SizeTarget): MembersPlan {
  return {
    do: "hold",
    reason: "ShrinkFloorReached",
    message: `the shrink was decided at ${from}, but the size has changed since; deciding again`,
  };
}

/** Whole members, as many as fit; `whyNoneReplaced`: why no smaller one takes the place of the largest. */
function giveBack(
  layout: FilesystemLayout,
  target: SizeTarget,
  shares: readonly Share[],
  whyNoneReplaced?: string,
): MembersPlan {
  const staying = shares.filter(stays);
  const surplusBytes = sumOf(staying) - parseQuantity(target.size);
  const leaving = setToLeave(layout, target, staying);
  if (leaving.length === 0) {
    const smallest = Math.min(...staying.map(({ bytes }) => bytes));
    const why =
      staying.length === 1
        ? "it has only one member, and the last one is never removed"
        : `its smallest member has ${formatBytes(smallest)}, and only whole members are given back`;
    return {
      do: "hold",
      reason: "ShrinkFloorReached",
      message:
        `${formatBytes(surplusBytes)} could be given back, but ${why}` +
        (whyNoneReplaced === undefined ? "" : `; no smaller one takes its place: ${whyNoneReplaced}`),
    };
  }
  const members = shares.map(({ member }) => member);
  const names = leaving.map(({ member }) => member.name);
  const rest = sumOf(staying) - sumOf(leaving);
  return {
    do: "change",
    members: withoutThese(members, names),
    target: { ...target, size: formatQuantity(rest) },
    nextMember: nextMemberOf(layout),
  };
}
