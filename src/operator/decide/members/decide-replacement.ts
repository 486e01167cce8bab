// A shrink for which no whole member fits: a smaller member replaces the largest one. The operator first makes the
// small member, outside the filesystem, and then has it taken in; only then does the large one leave. Pure, and decided
// again at each step from what the layout says: whatever comes in between leaves ordinary members behind. It never asks
// for less than the target, and never while anything else goes on.
import { stepBefore } from "../../../contracts/formulas/decision-order.ts";
import { filesystemSizeBytes } from "../../../contracts/formulas/filesystem-size.ts";
import { asksToStay, type SizeTarget } from "../../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout, MemberSpec } from "../../../contracts/kinds/filesystem-layout.ts";
import { isEmergencySince } from "../../../contracts/kinds/grant.ts";
import { formatBytes, formatQuantity, GIB, parseQuantity, wholeGiB } from "../../../contracts/quantities/quantity.ts";
import { isAtRest, isEmpty, isOfSize, isPart, isPresent } from "../layout-facts.ts";
import { tooManyRefused, usableMembers } from "./decide-member-state.ts";
import { type Share, sumOf } from "./member-bytes.ts";
import { expectedBytes, type Rounding, roundingMessage } from "./member-growth.ts";
import { MEMBERS_LIMIT, type MemberRules } from "./member-rules.ts";

export type ReplacementStep =
  /** Nothing to replace, or not now; `why`: there would be. */
  | { readonly do: "none"; readonly why?: string }
  | { readonly do: "order"; readonly sizeBytes: number; readonly member: string }
  /** The one that was made for a target before this one serves. */
  | { readonly do: "keep"; readonly name: string; readonly member: string }
  | { readonly do: "wait"; readonly message: string }
  /** Takes what was made in. */
  | { readonly do: "add"; readonly name: string; readonly target: SizeTarget }
  /** It is not taken in, since nothing would leave for it; `rounding`: its driver has made it too large. */
  | { readonly do: "drop"; readonly name: string; readonly rounding?: Rounding }
  /** It is in: what it replaces leaves, as any member does, from this size. */
  | { readonly do: "leave"; readonly from: string };

const NONE = { do: "none" } as const;
/** Less is not worth moving everything for. */
const GAIN_MIN_BYTES = GIB;

export function nextReplacementStep(
  layout: FilesystemLayout,
  target: SizeTarget,
  staying: readonly Share[],
  rules: MemberRules,
  roundings: readonly Rounding[] = [],
): ReplacementStep {
  const small = replacingMember(layout, target);
  if (small === undefined) return order(layout, target, staying, rules, roundings);
  if (isUseless(layout, small)) return { do: "drop", name: small.name };
  return takeIn(layout, target, small, "a larger one", bytesFor(small, target, staying));
}

/** How large a member may be that is there to replace others. */
export interface FittingBytes {
  readonly leastBytes: number;
  readonly mostBytes: number;
}

/**
 * How large the small member may be. In the large one's place it leaves the filesystem at least as large as the target,
 * and at least GAIN_MIN_BYTES smaller than before.
 */
function bytesFor({ replaces, size }: MemberSpec, target: SizeTarget, staying: readonly Share[]): FittingBytes {
  const replaced = staying.find(({ member }) => member.name === replaces?.member);
  const askedBytes = parseQuantity(size ?? "0");
  if (replaced === undefined) return { leastBytes: askedBytes, mostBytes: askedBytes };
  const surplusBytes = parseQuantity(target.from) - parseQuantity(target.size);
  return { leastBytes: replaced.bytes - surplusBytes, mostBytes: replaced.bytes - GAIN_MIN_BYTES };
}

/**
 * Whether it was made to replace others, and is outside the filesystem, whose data can no longer be moved. Its node can
 * release it.
 */
export function isUseless(layout: FilesystemLayout, { name, state }: MemberSpec): boolean {
  if (layout.status?.immovable === undefined || state !== "Spare") return false;
  return isAtRest(layout) && !isPresent(layout, name);
}

/** What a member that is there to replace others (`which`, in words) needs next. Its driver may have made it larger than asked for. */
export function takeIn(
  layout: FilesystemLayout,
  target: SizeTarget,
  made: MemberSpec,
  which: string,
  fitting: FittingBytes,
): Exclude<ReplacementStep, { readonly do: "order" | "keep" }> {
  return made.state === "Spare" ? add(layout, target, made, which, fitting) : leave(layout, target, made, which);
}

/** The member that is made for this very target. */
export function replacingMember({ spec }: FilesystemLayout, { decidedAt }: SizeTarget): MemberSpec | undefined {
  return spec.members?.find(({ replaces, state }) => state !== "Removed" && replaces?.decidedAt === decidedAt);
}

function order(
  layout: FilesystemLayout,
  target: SizeTarget,
  staying: readonly Share[],
  rules: MemberRules,
  roundings: readonly Rounding[],
): ReplacementStep {
  if (!isAsDecided(layout, target.from)) return NONE;
  const largest = largestMember(staying);
  const surplusBytes = sumOf(staying) - parseQuantity(target.size);
  if (largest === undefined || surplusBytes >= largest.bytes) return NONE;
  const sizeBytes = wholeGiB(largest.bytes - surplusBytes);
  if (largest.bytes - sizeBytes < GAIN_MIN_BYTES) return NONE;
  const member = largest.member.name;
  const former = formerFor(layout, member, sizeBytes);
  const count = usableMembers(layout).length;
  const isFull =
    count >= Math.min(rules.maxMembers, MEMBERS_LIMIT) || tooManyRefused(layout.spec.members ?? []) !== undefined;
  if (former === undefined && isFull) return NONE;
  const immovable = layout.status?.immovable;
  if (immovable !== undefined) return { do: "none", why: immovable };
  if (former !== undefined) return { do: "keep", name: former.name, member };
  const gotBytes = expectedBytes(roundings, sizeBytes);
  if (largest.bytes - gotBytes < GAIN_MIN_BYTES)
    return { do: "none", why: roundingMessage(rules.className, { askedBytes: sizeBytes, gotBytes }) };
  return { do: "order", sizeBytes, member };
}

/** A driver may need longer than a target stands. */
function formerFor({ spec }: FilesystemLayout, member: string, sizeBytes: number): MemberSpec | undefined {
  return spec.members?.find(
    ({ state, size, replaces }) =>
      state === "Spare" && replaces?.member === member && parseQuantity(size ?? "0") === sizeBytes,
  );
}

/** Of equal ones that which holds the least, then the last: the one that will leave. */
function largestMember(staying: readonly Share[]): Share | undefined {
  return staying.reduce<Share | undefined>((best, one) => {
    if (best === undefined || one.bytes > best.bytes) return one;
    return one.bytes === best.bytes && (one.allocatedBytes ?? 0) <= (best.allocatedBytes ?? 0) ? one : best;
  }, undefined);
}

/** In an extend of its own, decided a moment before the target, which then still is to come. */
function add(
  layout: FilesystemLayout,
  target: SizeTarget,
  { name, size }: MemberSpec,
  which: string,
  { leastBytes, mostBytes }: FittingBytes,
): ReturnType<typeof takeIn> {
  const askedBytes = parseQuantity(size ?? "0");
  const ready = layout.status?.members?.find((member) => member.name === name && member.state === "Spare");
  const readyBytes = parseQuantity(ready?.size ?? "0");
  if (readyBytes < leastBytes || askedBytes === 0 || !isAsDecided(layout, target.from))
    return {
      do: "wait",
      message: `member ${name} of ${formatBytes(askedBytes)} is to come first, which replaces ${which}${
        ready === undefined ? "" : `; it has ${formatBytes(readyBytes)}`
      }`,
    };
  if (readyBytes > mostBytes) return { do: "drop", name, rounding: { askedBytes, gotBytes: readyBytes } };
  const addedBytes = parseQuantity(target.from) + readyBytes;
  return {
    do: "add",
    name,
    target: { ...target, size: formatQuantity(addedBytes), decidedAt: stepBefore(target.decidedAt) },
  };
}

/** A process that has grown it since, an emergency for example, has decided otherwise. */
function leave(
  layout: FilesystemLayout,
  target: SizeTarget,
  { name }: MemberSpec,
  which: string,
): ReturnType<typeof takeIn> {
  const last = layout.status?.lastOperation;
  if (!isPresent(layout, name) || layout.status?.operation)
    return { do: "wait", message: `member ${name} is taken in to replace ${which}` };
  const from = formatQuantity(parseQuantity(target.from) + reportedBytes(layout, name));
  const isOurs = last?.outcome === "Succeeded" && last.decidedAt === stepBefore(target.decidedAt);
  return isOurs && isAsDecided(layout, from) ? { do: "leave", from } : NONE;
}

/**
 * The large member cannot leave, so the small one is taken out again. A shrink of its own does that, decided a moment
 * after the one that found its floor. Undefined where anything has changed since, or another end came: then the next
 * decision finds every member in.
 */
export function takenBack(layout: FilesystemLayout): SizeTarget | undefined {
  const { spec, status } = layout;
  const last = status?.lastOperation;
  const { target } = spec;
  if (target === undefined || last?.outcome !== "FloorReached" || last.decidedAt !== target.decidedAt) return undefined;
  const small = replacingMember(layout, target);
  if (small === undefined || small.state === "Spare" || !isAsDecided(layout, target.from)) return undefined;
  const sizeBytes = parseQuantity(target.from) - reportedBytes(layout, small.name);
  return { ...target, size: formatQuantity(sizeBytes), decidedAt: after(target.decidedAt) };
}

/**
 * A stop came in between. A member that was taken in by then, and holds nothing yet, is taken out again, and the
 * filesystem is as large as before. One that holds something stays: the policy that would have its data moved is no
 * longer there.
 */
export function leftByStop(layout: FilesystemLayout): SizeTarget | undefined {
  const { spec } = layout;
  const { target } = spec;
  const made = spec.members?.find((member) => member.replaces !== undefined && isPart(member));
  const presentBytes = filesystemSizeBytes(layout);
  if (target === undefined || made === undefined || presentBytes === undefined || !asksToStay(target)) return undefined;
  const present = formatQuantity(presentBytes);
  if (!isEmpty(layout, made.name) || !isAsDecided(layout, present)) return undefined;
  const left = formatQuantity(presentBytes - reportedBytes(layout, made.name));
  return { ...target, size: left, from: present, decidedAt: after(target.decidedAt) };
}

/**
 * What a replacement has made is a member like any other once the large one's removal has ended, unless it is to be taken back; and once
 * it is in, and an emergency has come, whichever step that came between.
 */
export function withoutEndedMark(layout: FilesystemLayout, member: MemberSpec): MemberSpec {
  const { spec, status } = layout;
  const { replaces, ...plain } = member;
  const last = status?.lastOperation;
  if (replaces === undefined || status?.operation) return member;
  if (isPresent(layout, member.name) && isEmergencySince(layout, replaces.decidedAt)) return plain;
  // Whatever was decided since, and was nothing to do.
  if (last?.decidedAt === replaces.decidedAt && last.outcome !== "FloorReached") return plain;
  if (replaces.decidedAt !== spec.target?.decidedAt) return isStoppedInUse(layout, member) ? plain : member;
  const isDropped = spec.target.size === spec.target.from && isPresent(layout, member.name);
  return isDropped || last?.emergency === true ? plain : member;
}

/** A stop has come since the member came in; the member holds data, and so it stays. */
function isStoppedInUse(layout: FilesystemLayout, { name }: MemberSpec): boolean {
  const { target } = layout.spec;
  if (target === undefined || !asksToStay(target) || !isAtRest(layout)) return false;
  return isPresent(layout, name) && !isEmpty(layout, name);
}

/**
 * What was made to replace a member, for a target that no longer counts, is a member like any other. If it is still
 * outside the filesystem it goes, but not before its node can release it.
 */
export function withoutFormerMarks(
  layout: FilesystemLayout,
  members: readonly MemberSpec[],
  decidedAt: string,
): MemberSpec[] {
  return members.map((member) => {
    const { replaces, ...plain } = member;
    if (replaces === undefined || replaces.decidedAt === decidedAt) return member;
    if (plain.state !== "Spare") return plain;
    return isAtRest(layout) ? { ...plain, state: "Removed" } : member;
  });
}

/** What its node says that it has, whatever was asked for; 0: nothing is said of it. */
function reportedBytes({ status }: FilesystemLayout, name: string): number {
  return parseQuantity(status?.members?.find((member) => member.name === name)?.size ?? "0");
}

/** Mounted, of this size, and made of all its members. */
function isAsDecided(layout: FilesystemLayout, size: string): boolean {
  if (!isAtRest(layout)) return false;
  const isWhole = (layout.spec.members ?? []).every((member) => isPart(member) === isPresent(layout, member.name));
  return isWhole && isOfSize(layout, size);
}

/**
 * The next moment: a target that follows from another one without a new decision is newer than that one, and older than
 * any decision.
 */
export function after(decidedAt: string): string {
  return new Date(Date.parse(decidedAt) + 1).toISOString();
}
