// What a member's wanted state becomes by what its node reports. Pure. A removal that its node has given up is taken back, and one
// that its node has finished holds, whatever was wanted meanwhile: a wiped device is never used again.
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { isOfSize, isPart, isRemoving } from "../volume/layout-facts.ts";

export function settledState(layout: FilesystemLayout, member: MemberSpec): MemberSpec["state"] {
  const { name, state } = member;
  const reported = layout.status?.members?.find((member) => member.name === name)?.state;
  if (reported === "Removed") return staysWithout(layout) ? "Removed" : state;
  if (reported === "Present" && (state === "Spare" || (state === "Removed" && isGivenUp(layout)))) return "Present";
  return isFoundOutside(layout, member) ? "Spare" : state;
}

/** A rebuilt layout does not know which member was a spare: once its node has mounted the filesystem, that is whatever is not in it. */
function isFoundOutside({ spec, status }: FilesystemLayout, { name, size, state }: MemberSpec): boolean {
  if (size !== undefined || state === "Removed" || state === "Spare" || status?.operation) return false;
  const isMounted = status?.mounted === true && status.nodeName === spec.nodeName && spec.nodeName !== undefined;
  const others = status?.members?.filter((member) => member.state === "Present") ?? [];
  return isMounted && others.length > 0 && status.members?.some((member) => member.name === name) !== true;
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
  // A target of the present size lets nobody leave: an extend that outlived its time limit has taken in what was dropped meanwhile.
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
