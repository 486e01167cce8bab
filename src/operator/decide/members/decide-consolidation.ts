// A filesystem of fewer members and the same size, for the attach slots that the others take: its smallest members are merged into a
// larger one. Where members grow in place, the largest grows first; where they do not, a new one comes first, which takes a slot more for
// a while. Either is an extend that is decided a moment before the target; then the others leave, as members do in any shrink. So the
// filesystem is never smaller than before. Pure, and decided again at each step.
import { stepBefore } from "../../../contracts/formulas/decision-order.ts";
import { filesystemSizeBytes } from "../../../contracts/formulas/filesystem-size.ts";
import type { SizeTarget, WantedTarget } from "../../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout, MemberSpec } from "../../../contracts/kinds/filesystem-layout.ts";
import { isEmergencySince } from "../../../contracts/kinds/grant.ts";
import { formatBytes, formatQuantity, GIB, parseQuantity, wholeGiB } from "../../../contracts/quantities/quantity.ts";
import { isAtRest, isMounted, isPresent, isRemoving } from "../layout-facts.ts";
import { cheapestSet } from "./decide-leaving.ts";
import { tooManyRefused, usableMembers } from "./decide-member-state.ts";
import { isUseless, replacingMember, takeIn } from "./decide-replacement.ts";
import { type Share, sharesOf, stays, sumOf } from "./member-bytes.ts";
import { expectedBytes, type Rounding, roundingMessage } from "./member-growth.ts";
import { MERGING_MEMBERS_LIMIT, type MemberRules } from "./member-rules.ts";

/** A target that says how many members there shall be. */
export type ConsolidationTarget = WantedTarget & { readonly members: number };

export type ConsolidationStep =
  /** Nothing is left to merge: the target is as good as carried out. */
  | { readonly do: "none"; readonly target: SizeTarget }
  | { readonly do: "grow"; readonly name: string; readonly sizeBytes: number; readonly target: SizeTarget }
  /**
   * A new one is made, and stays outside the filesystem until it is ready; `member` is the largest of those that it
   * replaces.
   */
  | { readonly do: "order"; readonly sizeBytes: number; readonly member: string }
  | { readonly do: "add"; readonly name: string; readonly target: SizeTarget }
  /** The new one is not to be had: it goes, and the filesystem stays as it is. */
  | { readonly do: "drop"; readonly name: string; readonly target: SizeTarget; readonly rounding?: Rounding }
  /** The one that grew, or came, has room for what is on these. */
  | { readonly do: "leave"; readonly names: readonly string[]; readonly target: SizeTarget }
  | { readonly do: "wait"; readonly message: string }
  /** Something else came in between: the policy-engine decides again. */
  | { readonly do: "give-up"; readonly message: string };

/** How the one that the others are merged into gets its room. */
export type MergeWay = "grow" | "replace";

/** What a member is made by. */
interface MemberClass {
  readonly rules: MemberRules;
  readonly roundings?: readonly Rounding[] | undefined;
}

/** Which members are merged, and into which one. */
export interface Merge {
  readonly leaving: readonly Share[];
  /** Undefined: a new one takes their place. */
  readonly growing: Share | undefined;
  /**
   * What the one that stays has to grow by, or a new one has to have, so that the filesystem keeps this size without the others; 0:
   * there is that room.
   */
  readonly growthBytes: number;
}

/** The smallest and emptiest leave, of equal ones those that came last. Undefined: there are no more than that. */
export function mergeInto(
  count: number,
  staying: readonly Share[],
  sizeBytes: number,
  way: MergeWay,
): Merge | undefined {
  if (count < 1 || staying.length <= count) return undefined;
  const leaving = largestFirst(cheapestSet(staying, count, sizeBytes));
  const remaining = staying.filter((share) => !leaving.includes(share));
  const [growing] = largestFirst(remaining);
  if (growing === undefined) return undefined;
  const missingBytes = sizeBytes - sumOf(remaining);
  if (missingBytes <= 0) return { leaving, growing, growthBytes: 0 };
  if (way === "grow") return { leaving, growing, growthBytes: wholeGiB(growing.bytes + missingBytes) - growing.bytes };
  const replaced = largestFirst(cheapestSet(staying, count - 1, sizeBytes));
  return { leaving: replaced, growing: undefined, growthBytes: wholeGiB(sizeBytes - sumOf(staying) + sumOf(replaced)) };
}

function largestFirst(shares: readonly Share[]): Share[] {
  return [...shares].sort((a, b) => b.bytes - a.bytes);
}

/**
 * The layout with those members in that a deposed leader had marked to leave. No node starts a target of that leader
 * from now on, so they leave only if the present leader decides it.
 */
export function withoutFormerRemoval(layout: FilesystemLayout, { epoch, decidedAt }: WantedTarget): FilesystemLayout {
  const { spec, status } = layout;
  const isFormer = spec.target !== undefined && spec.target.epoch < epoch && spec.target.decidedAt !== decidedAt;
  if (!isFormer || status?.operation || isRemoving(layout)) return layout;
  const members = spec.members?.map((member): MemberSpec => {
    const isStillIn = member.state === "Removed" && isPresent(layout, member.name);
    return isStillIn ? { ...member, state: "Present" } : member;
  });
  return { ...layout, spec: { ...spec, ...(members && { members }) } };
}

export function nextConsolidationStep(
  layout: FilesystemLayout,
  wanted: ConsolidationTarget,
  way: MergeWay,
  memberClass: MemberClass,
): ConsolidationStep {
  const { members: most, ...target } = wanted;
  const presentBytes = filesystemSizeBytes(layout);
  const made = replacingMember(layout, target);
  if (made !== undefined) return withNewMember(layout, wanted, made);
  const growth = { ...target, decidedAt: stepBefore(target.decidedAt) };
  if (presentBytes === undefined || !isWhole(layout) || layout.status?.operation)
    return { do: "wait", message: `its members are merged into ${most} once it is mounted and made of all of them` };
  // What has begun goes on, whatever is known of the class by now.
  const isGrowing = layout.spec.target?.decidedAt === growth.decidedAt;
  const bySize = reportedShares(layout).filter(stays);
  const merge = mergeInto(most, bySize, parseQuantity(target.size), isGrowing ? "grow" : way);
  if (merge === undefined) return { do: "none", target: unchanged(target, presentBytes) };
  const isOfSize = presentBytes === parseQuantity(target.from);
  if (merge.growthBytes === 0 && (isOfSize || hasEnded(layout, growth.decidedAt) || isAt(layout, growth.decidedAt)))
    return leave(target, merge.leaving, presentBytes);
  const { growing } = merge;
  if (!isOfSize || hasFailed(layout, growth.decidedAt)) return changedMeanwhile(wanted, presentBytes);
  const immovable = layout.status?.immovable;
  if (immovable !== undefined && !isGrowing)
    return { do: "give-up", message: `${namesOf(merge.leaving)} cannot leave: ${immovable}` };
  if (growing === undefined) return order(layout, merge, memberClass);
  const sizeBytes = growing.bytes + merge.growthBytes;
  const { name } = growing.member;
  if (isGrowing)
    return {
      do: "wait",
      message: `member ${name} grows to ${formatBytes(sizeBytes)}; then ${namesOf(merge.leaving)} leave`,
    };
  return { do: "grow", name, sizeBytes, target: { ...growth, size: formatQuantity(presentBytes + merge.growthBytes) } };
}

function order(layout: FilesystemLayout, merge: Merge, { rules, roundings = [] }: MemberClass): ConsolidationStep {
  const refused = tooManyRefused(layout.spec.members ?? []);
  if (refused !== undefined) return { do: "give-up", message: refused };
  const count = usableMembers(layout).length;
  const [largest] = merge.leaving;
  if (largest === undefined || count >= MERGING_MEMBERS_LIMIT)
    return { do: "give-up", message: `it has ${count} members: there is no place for one more, even for a while` };
  const askedBytes = merge.growthBytes;
  const gotBytes = expectedBytes(roundings, askedBytes);
  if (gotBytes > mostFor(askedBytes))
    return { do: "give-up", message: roundingMessage(rules.className, { askedBytes, gotBytes }) };
  return { do: "order", sizeBytes: askedBytes, member: largest.member.name };
}

/** A larger one would make the filesystem grow by a merge, and no policy has decided that. */
function mostFor(askedBytes: number): number {
  return askedBytes + GIB - 1;
}

/** From when on one is made for this very target. */
function withNewMember(layout: FilesystemLayout, wanted: ConsolidationTarget, made: MemberSpec): ConsolidationStep {
  const { members: most, ...target } = wanted;
  const presentBytes = filesystemSizeBytes(layout) ?? 0;
  if (isUseless(layout, made) || (made.state !== "Spare" && wasNotTakenIn(layout, made, target)))
    return { do: "drop", name: made.name, target: unchanged(target, presentBytes) };
  const askedBytes = parseQuantity(made.size ?? "0");
  const fitting = { leastBytes: askedBytes, mostBytes: mostFor(askedBytes) };
  const step = takeIn(layout, target, made, "smaller ones", fitting);
  if (step.do === "drop") return { ...step, target: unchanged(target, presentBytes) };
  if (step.do === "none") return changedMeanwhile(wanted, presentBytes);
  if (step.do !== "leave") return step;
  const merge = mergeInto(most, reportedShares(layout).filter(stays), parseQuantity(target.size), "replace");
  return merge?.growthBytes === 0 ? leave(target, merge.leaving, presentBytes) : changedMeanwhile(wanted, presentBytes);
}

/** Its node could not take it in, and has the filesystem without it. */
function wasNotTakenIn(layout: FilesystemLayout, { name }: MemberSpec, { decidedAt }: SizeTarget): boolean {
  return isAtRest(layout) && !isPresent(layout, name) && hasFailed(layout, stepBefore(decidedAt));
}

/** A size that is there is nothing to do: no node does anything for it. */
export function unchanged(target: SizeTarget, presentBytes: number): SizeTarget {
  const present = formatQuantity(presentBytes);
  return { ...target, size: present, from: present };
}

/** Whether a new member is made for it and is still outside the filesystem: so far nothing has changed. */
export function isOnlyOrdered(layout: FilesystemLayout, target: SizeTarget): boolean {
  return replacingMember(layout, target)?.state === "Spare";
}

/** Its first step is decided, or one that came to nothing left the filesystem larger than it is to be. */
export function hasBegun(layout: FilesystemLayout, target: WantedTarget): boolean {
  const { spec, status } = layout;
  const { size, decidedAt } = target;
  const first = stepBefore(decidedAt);
  const isLarger = (filesystemSizeBytes(layout) ?? 0) > parseQuantity(size);
  const isDecided = spec.target?.decidedAt === first || status?.lastOperation?.decidedAt === first;
  return isLarger || isDecided || replacingMember(layout, target) !== undefined;
}

function leave(target: SizeTarget, leaving: readonly Share[], presentBytes: number): ConsolidationStep {
  const size = formatQuantity(presentBytes - sumOf(leaving));
  const names = leaving.map(({ member }) => member.name);
  return { do: "leave", names, target: { ...target, size, from: formatQuantity(presentBytes) } };
}

/** A process that has changed the size since, an emergency for example, has decided otherwise. */
function changedMeanwhile({ members, from }: ConsolidationTarget, presentBytes: number): ConsolidationStep {
  return {
    do: "give-up",
    message: `deciding again: ${members} member${members === 1 ? "" : "s"} of ${from} ${members === 1 ? "was" : "were"} to replace it, and it has ${formatBytes(presentBytes)} now, or one could not be provisioned`,
  };
}

export function namesOf(shares: readonly Share[]): string {
  return shares.map(({ member }) => member.name).join(", ");
}

/** As the node has them: what was ordered is not there yet. */
function reportedShares(layout: FilesystemLayout): Share[] {
  const reported = new Map(layout.status?.members?.map(({ name, size }) => [name, parseQuantity(size)]));
  return sharesOf(layout).map((share) => ({ ...share, bytes: reported.get(share.member.name) ?? 0 }));
}

function hasEnded({ status }: FilesystemLayout, decidedAt: string): boolean {
  return status?.lastOperation?.outcome === "Succeeded" && status.lastOperation.decidedAt === decidedAt;
}

/** Nothing was left to do for that step: the extend of a former leader, which ran already, has come as far. */
function isAt(layout: FilesystemLayout, decidedAt: string): boolean {
  const { target } = layout.spec;
  if (target?.decidedAt !== decidedAt || isEmergencySince(layout, decidedAt)) return false;
  return filesystemSizeBytes(layout) === parseQuantity(target.size);
}

function hasFailed({ status }: FilesystemLayout, decidedAt: string): boolean {
  return status?.lastOperation?.outcome !== "Succeeded" && status?.lastOperation?.decidedAt === decidedAt;
}

/** Mounted on its node, and made of just the members that it shall have; none comes, leaves or takes another's place. */
export function isWhole(layout: FilesystemLayout): boolean {
  if (isRemoving(layout) || !isMounted(layout)) return false;
  return (layout.spec.members ?? []).every(
    ({ name, replaces, state }) =>
      replaces === undefined && state !== "Removed" && isPresent(layout, name) === (state !== "Spare"),
  );
}
