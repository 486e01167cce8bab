// Whether a span volume is to have a spare member made, which is attached to its node and no part of the filesystem until an emergency
// or a target takes it in. Pure. A spare is as large as what an emergency may take, and never asked for while members come or go.
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { filesystemSizeBytes } from "../../api/filesystem-size.ts";
import { GIB, parseQuantity, wholeGiB } from "../../units/quantity.ts";
import { isBeside, isRemoving } from "../volume/layout-facts.ts";
import { MEMBERS_LIMIT, type MemberRules } from "./member-rules.ts";
import { tooManyRefused, usableMembers, withRefusals } from "./refused-members.ts";

export type SparePlan =
  /** It is there, none is wanted, or it is not the time for one. */
  | { readonly do: "keep" }
  | { readonly do: "order"; readonly sizeBytes: number }
  /** The spare is larger than anything that may take it in now, or there are more than the class asks for. */
  | { readonly do: "drop"; readonly name: string }
  | { readonly do: "lack"; readonly message: string };

const KEEP: SparePlan = { do: "keep" };

export function decideSpare(before: FilesystemLayout, rules: MemberRules | undefined): SparePlan {
  const layout = withRefusals(before);
  const presentBytes = filesystemSizeBytes(layout);
  if (rules === undefined || presentBytes === undefined || !isQuiet(layout)) return KEEP;
  const { emergency } = layout.spec;
  const members = usableMembers(layout);
  const grantedBytes = Math.max(0, parseQuantity(emergency?.size ?? "0") - presentBytes);
  const surplus = surplusSpare(layout, members, rules, grantedBytes);
  if (surplus !== undefined) return { do: "drop", name: surplus.name };
  if (rules.spareMembers !== 1) return KEEP;
  const spare = members.find(isSpare);
  if (spare !== undefined) {
    const isTooLarge = grantedBytes > 0 && spareBytes(spare) > wholeGiB(grantedBytes);
    return isTooLarge ? { do: "drop", name: spare.name } : KEEP;
  }
  if (members.length >= Math.min(rules.maxMembers, MEMBERS_LIMIT))
    return lack(`${members.length} members of at most ${rules.maxMembers} are there`);
  const refused = tooManyRefused(layout.spec.members ?? []);
  if (refused !== undefined) return lack(refused);
  if (grantedBytes === 0) return lack("no policy grants it an emergency extend, which is what a spare is for");
  // Down, so that a grant that moves a little with what is written makes no spare too large.
  return { do: "order", sizeBytes: Math.max(GIB, Math.floor(grantedBytes / GIB) * GIB) };
}

/**
 * A device that was wiped since its node refused it is a spare in addition to those that the class asks for. The one stays that serves an
 * emergency best. One that its node has not looked at yet never goes so: its device may carry something.
 */
function surplusSpare(
  layout: FilesystemLayout,
  members: readonly MemberSpec[],
  { spareMembers }: MemberRules,
  grantedBytes: number,
): MemberSpec | undefined {
  const ready = members.filter((member) => isSpare(member) && isBeside(layout, member.name));
  if (ready.length <= spareMembers) return undefined;
  const mostBytes = wholeGiB(grantedBytes);
  const worthOf = (spare: MemberSpec): number => {
    const bytes = spareBytes(spare);
    return bytes <= mostBytes ? bytes : -bytes;
  };
  return ready.reduce((least, one) => (worthOf(one) <= worthOf(least) ? one : least));
}

function lack(why: string): SparePlan {
  return { do: "lack", message: `there is no spare member: ${why}` };
}

export function isSpare({ state }: MemberSpec): boolean {
  return state === "Spare";
}

/** Mounted where it is published, and made of just the members that it shall have. */
function isQuiet(layout: FilesystemLayout): boolean {
  const { spec, status } = layout;
  if (isRemoving(layout) || spec.nodeName === undefined || status?.operation) return false;
  if (spec.members?.some(({ replaces }) => replaces !== undefined)) return false;
  const present = new Set(status?.members?.filter(({ state }) => state === "Present").map(({ name }) => name));
  const isAsWanted = (member: MemberSpec): boolean =>
    member.state !== "Removed" && isSpare(member) !== present.has(member.name);
  return status?.mounted === true && status.nodeName === spec.nodeName && (spec.members ?? []).every(isAsWanted);
}

function spareBytes({ size, source }: MemberSpec): number {
  return parseQuantity(size ?? source.claim?.capacity ?? "0");
}
