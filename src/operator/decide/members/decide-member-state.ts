// What a member's wanted state becomes by what its node reports. Pure. A removal that its node has given up is taken back; one that its
// node has finished holds, whatever was wanted since: a wiped device is never used again. A member whose device carries something,
// perhaps a user's data, stays as it is: its node has not taken it in, it is never asked to go, and does not count as room: others are
// made.

import type { FilesystemLayout, MemberSpec } from "../../../contracts/kinds/filesystem-layout.ts";
import { withDetail } from "../../../contracts/printable.ts";
import { isBeside, isMounted, isOfSize, isOut, isPart, isPresent, isRemoving } from "../layout-facts.ts";

export function decideMemberState(layout: FilesystemLayout, member: MemberSpec): MemberSpec["state"] {
  const { name, state } = member;
  const reported = layout.status?.members?.find((member) => member.name === name)?.state;
  if (reported === "Removed") return staysWithout(layout) ? "Removed" : state;
  if (reported === "Present" && (state === "Spare" || (state === "Removed" && isGivenUp(layout)))) return "Present";
  return isFoundOutside(layout, member) ? "Spare" : state;
}

/** A rebuilt layout does not know which member was a spare: once its node has mounted the filesystem, that is whatever is not in it. */
function isFoundOutside(layout: FilesystemLayout, { name, size, state }: MemberSpec): boolean {
  const { spec, status } = layout;
  if (size !== undefined || state === "Removed" || state === "Spare" || status?.operation) return false;
  const others = status?.members?.filter((member) => member.state === "Present") ?? [];
  return (
    spec.nodeName !== undefined &&
    isMounted(layout) &&
    others.length > 0 &&
    status?.members?.some((member) => member.name === name) !== true
  );
}

/** A layout without a member that stays is one that is deleted, which is not for a node to decide. */
function staysWithout({ spec, status }: FilesystemLayout): boolean {
  const removed = new Set(status?.members?.filter(({ state }) => state === "Removed").map(({ name }) => name));
  return (spec.members ?? []).some((member) => isPart(member) && !removed.has(member.name));
}

function isGivenUp(layout: FilesystemLayout): boolean {
  const { spec, status } = layout;
  const last = status?.lastOperation;
  if (status?.operation || isRemoving(layout)) return false;
  // A target of the present size lets no member leave: an extend that outlived its time limit has taken in what was
  // dropped since.
  if (spec.target !== undefined && spec.target.size === spec.target.from) return true;
  if (last === undefined) return false;
  if (last.outcome === "Succeeded") return last.emergency === true && isBegunByNobody(layout);
  return last.kind === "Shrink" && last.decidedAt !== undefined && last.decidedAt === spec.target?.decidedAt;
}

/**
 * An emergency takes back whatever was to leave when it came: its target has ended, or was decided on another size. By no clock: the node's
 * may have been ahead.
 */
function isBegunByNobody(layout: FilesystemLayout): boolean {
  const { target } = layout.spec;
  if (target === undefined) return true;
  const hasEnded = Date.parse(layout.status?.endedDecidedAt ?? "") >= Date.parse(target.decidedAt);
  return hasEnded || !isOfSize(layout, target.from);
}

/** A member by what its node reports of it. */
interface MemberNow {
  /** As the layout has it. */
  readonly named: MemberSpec;
  /** As its node has found it, in the state that it has by that. */
  readonly found: MemberSpec;
  /** Out of the filesystem permanently. */
  readonly isOut: boolean;
}

/** In the layout's order. */
export function decideMemberStates(layout: FilesystemLayout): MemberNow[] {
  return (layout.spec.members ?? []).map((named) => {
    const refused = withRefusal(layout, named);
    const state = decideMemberState(layout, refused);
    const found = { ...refused, ...(state === undefined ? {} : { state }) };
    return { named, found, isOut: isOut(layout, found) };
  });
}

/**
 * The members that a mount of the filesystem needs: one that is to leave, and has not yet, is among them, and a spare is not, for whose
 * slot no pod waits.
 */
export function neededMembers(layout: FilesystemLayout): MemberSpec[] {
  return (layout.spec.members ?? []).filter(
    (member) => !isOut(layout, member) && decideMemberState(layout, withRefusal(layout, member)) !== "Spare",
  );
}

/** So many of a volume at a time: a driver whose disks all carry something gives out no more. */
const REFUSED_LIMIT = 2;

export function isRefused({ refused }: Pick<MemberSpec, "refused">): boolean {
  return refused !== undefined;
}

/**
 * The member as its node has found it. One that was refused is a spare like any other once its node has it ready: a
 * user has wiped it. Until then it stays outside the filesystem and replaces no member, whatever a user has written of
 * it except `Removed`. One that was asked to go before its node found what it carries is taken back; a user can still
 * ask for it.
 */
export function withRefusal(layout: FilesystemLayout, member: MemberSpec): MemberSpec {
  const { name, state } = member;
  const { refused, ...plain } = member;
  if (state === "Removed" && (refused !== undefined || !isToBeTakenBack(layout, member))) return member;
  if (isPresent(layout, name) || isBeside(layout, name)) return refused === undefined ? member : plain;
  const why = layout.status?.refused?.find((one) => one.name === name)?.message ?? refused;
  if (why === undefined || (why === refused && state === "Spare" && member.replaces === undefined)) return member;
  const { replaces: _noMore, ...rest } = plain;
  return { ...rest, state: "Spare", refused: why };
}

/** Not once it is wiped and given back, nor where the whole volume is deleted: what was refused goes with it. */
function isToBeTakenBack(layout: FilesystemLayout, member: MemberSpec): boolean {
  return !isRemoving(layout) && !isOut(layout, member) && !isPresent(layout, member.name);
}

/** The layout as its members have been found. */
export function withRefusals(layout: FilesystemLayout): FilesystemLayout {
  const { spec } = layout;
  const members = spec.members?.map((member) => withRefusal(layout, member));
  return members === undefined ? layout : { ...layout, spec: { ...spec, members } };
}

/** Members that the filesystem has, or can count on. */
export function usableMembers({ spec }: FilesystemLayout): MemberSpec[] {
  return (spec.members ?? []).filter((member) => !isRefused(member));
}

/** Those whose devices carry something, where they are so many that no further one is made; undefined: one may be. */
export function tooManyRefused(members: readonly MemberSpec[]): string | undefined {
  const names = members.filter(isRefused).map(({ name }) => name);
  return names.length < REFUSED_LIMIT
    ? undefined
    : `none is added while the devices of ${names.join(" and ")} carry something`;
}

/** What its node has found since the layout was written. */
export function newlyRefused(layout: FilesystemLayout): MemberSpec[] {
  return (layout.spec.members ?? [])
    .map((member) => ({ member, now: withRefusal(layout, member) }))
    .filter(({ member, now }) => isRefused(now) && !isRefused(member))
    .map(({ now }) => now);
}

/** For people, of at least one member; claim and volume of each stand in the layout, as all that was found does. */
export function refusalMessage([first, ...others]: readonly MemberSpec[]): string {
  // What was found on one says nothing of another.
  const more = others.length === 0 ? "" : ` (and ${others.length} more, see spec.members)`;
  const what = `see whose data member ${first?.name} has${more}: wipe it on its node to use it, or set its state to Removed`;
  return withDetail(what, first?.refused);
}
