// Members whose devices carry something, so that their node has not taken them in: half added once, or a driver that gives out disks with old
// data. What is on them may be somebody's. They stay as they are, are never asked to go, and count as no room: others are made. Pure.
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { isBeside, isOut, isPresent, isRemoving } from "../volume/layout-facts.ts";

/** So many of a volume at a time: a driver whose disks all carry something gives out no more. */
const REFUSED_LIMIT = 2;

export function isRefused({ refused }: Pick<MemberSpec, "refused">): boolean {
  return refused !== undefined;
}

/**
 * The member as its node has found it. One that was refused is a spare like any other once its node has it ready: somebody has wiped it. Until
 * then it stays beside the filesystem, whatever else a person has written of it but `Removed`, and takes nobody's place any more. One that was
 * asked to go before anybody knew what it carries is taken back; a person can still ask for it.
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

/** For people. */
export function refusalMessage(layout: FilesystemLayout, { name, source, refused }: MemberSpec): string {
  const { driver = "not known", volumeHandle = "not known", name: claim = "not known" } = source.claim ?? {};
  return (
    `member ${name} (volume ${volumeHandle} of driver ${driver}, claim ${claim}) is not taken in: ${refused}. It is left as it is, and counts ` +
    `as no room. Look whose data it is; then wipe the device on its node, and it is a spare, used or given back, or set the member's state to Removed in ` +
    `FilesystemLayout ${layout.metadata.name}, and its volume is deleted`
  );
}
