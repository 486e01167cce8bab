// Whether a span volume is to have a spare member made, which is attached to its node and no part of the filesystem until an emergency
// or a target takes it in. Pure. A spare is as large as what an emergency may take, and never asked for while members come or go.
import { filesystemSizeBytes } from "../../../contracts/formulas/filesystem-size.ts";
import type { FilesystemLayout, MemberSpec } from "../../../contracts/kinds/filesystem-layout.ts";
import { formatBytes, GIB, parseQuantity, wholeGiB } from "../../../contracts/quantities/quantity.ts";
import type { LayoutFields } from "../../volumes/layout-fields.ts";
import { isBeside, isMounted, isRemoving } from "../layout-facts.ts";
import { newMember, nextMemberOf, withState } from "./changed-members.ts";
import { tooManyRefused, usableMembers, withRefusals } from "./decide-member-state.ts";
import type { MemberClassFacts } from "./decide-members.ts";
import { memberBytesOf, quotaMessage, refusedBytesOf } from "./member-bytes.ts";
import { expectedBytes, type Rounding, roundingMessage, roundingText } from "./member-growth.ts";
import { MEMBERS_LIMIT, type MemberRules } from "./member-rules.ts";

export type SparePlan =
  /** It is there, none is wanted, or it is not the time for one. */
  | { readonly do: "keep" }
  | { readonly do: "order"; readonly sizeBytes: number }
  /**
   * The spare is larger than anything that may take it in now, or there are more than the class asks for; `rounding`: it is larger than
   * it was asked for.
   */
  | { readonly do: "drop"; readonly name: string; readonly rounding?: Rounding }
  | { readonly do: "lack"; readonly message: string };

const KEEP: SparePlan = { do: "keep" };

/** `roundings`: how much larger than asked for members of the class have been made lately. */
export function decideSpare(
  before: FilesystemLayout,
  rules: MemberRules | undefined,
  roundings: readonly Rounding[] = [],
): SparePlan {
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
    const isTooLarge = grantedBytes > 0 && spareBytes(layout, spare) > wholeGiB(grantedBytes);
    return isTooLarge ? { do: "drop", name: spare.name, ...roundingOf(layout, spare) } : KEEP;
  }
  if (members.length >= Math.min(rules.maxMembers, MEMBERS_LIMIT))
    return lack(`${members.length} members of at most ${rules.maxMembers} are there`);
  const refused = tooManyRefused(layout.spec.members ?? []);
  if (refused !== undefined) return lack(refused);
  if (grantedBytes === 0) return lack("no policy grants it an emergency extend, which is what a spare is for");
  return order(grantedBytes, rules, roundings);
}

export interface SpareFacts extends Pick<MemberClassFacts, "rules" | "roundings" | "quota"> {
  /** Why its node has no attach slot for one more; undefined: it has. */
  readonly full: string | undefined;
  /** The date of what is remembered of the class. */
  readonly growthTimeMs: number;
}

/** What orders a spare in the layout, or asks it to go. `lack`: why there is no spare, for people. */
export function spareFields(
  layout: FilesystemLayout,
  { rules, roundings = [], quota, full, growthTimeMs }: SpareFacts,
): { readonly fields?: LayoutFields; readonly lack?: string } {
  const plan = decideSpare(layout, rules, roundings);
  const { members = [] } = layout.spec;
  switch (plan.do) {
    case "keep":
      return {};
    case "lack":
      return { lack: plan.message };
    case "drop": {
      const { name, rounding } = plan;
      const remembered = rounding && { rounding: roundingText(rounding, growthTimeMs) };
      return { fields: { members: withState(members, name, "Removed"), ...remembered } };
    }
    case "order": {
      const wantedBytes = memberBytesOf(layout) + expectedBytes(roundings, plan.sizeBytes);
      const why = full ?? (quota && quotaMessage(quota, wantedBytes, refusedBytesOf(layout)));
      if (why !== undefined) return { lack: `there is no spare member of ${formatBytes(plan.sizeBytes)}: ${why}` };
      const index = nextMemberOf(layout);
      const spare = { ...newMember(layout.metadata.name, index, plan.sizeBytes), state: "Spare" as const };
      return { fields: { members: [...members, spare], nextMember: index + 1 } };
    }
  }
}

function order(grantedBytes: number, { className }: MemberRules, roundings: readonly Rounding[]): SparePlan {
  const mostBytes = wholeGiB(grantedBytes);
  // What became too large when so much was asked for does so again: less may not.
  const tooMuchBytes = Math.min(...roundings.flatMap((one) => (one.gotBytes > mostBytes ? [one.askedBytes] : [])));
  // Down, so that a grant that moves a little with what is written makes no spare too large.
  const wantedBytes = Math.min(Math.floor(grantedBytes / GIB), Math.ceil(tooMuchBytes / GIB) - 1) * GIB;
  const sizeBytes = Math.max(GIB, wantedBytes);
  const gotBytes = expectedBytes(roundings, sizeBytes);
  if (gotBytes <= mostBytes) return { do: "order", sizeBytes };
  const rounded = roundingMessage(className, { askedBytes: sizeBytes, gotBytes });
  return lack(`${rounded}, and an emergency takes one of at most ${formatBytes(mostBytes)}`);
}

/**
 * A device that was wiped since its node refused it is a spare in addition to those that the class asks for. The spare
 * that serves an emergency best stays. One that its node has not checked yet never goes so: its device may carry
 * something.
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
    const bytes = spareBytes(layout, spare);
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
  return isMounted(layout) && (spec.members ?? []).every(isAsWanted);
}

/**
 * The size of its device, which an emergency counts with, once its node has it ready; before that the size that was
 * asked for. The size that its driver reports for its volume is not enough. The spare must not go before its node has
 * checked what its device carries.
 */
function spareBytes(layout: FilesystemLayout, spare: MemberSpec): number {
  return Math.max(askedBytesOf(spare), readyBytes(layout, spare));
}

function askedBytesOf({ size, source }: MemberSpec): number {
  return parseQuantity(size ?? source.claim?.capacity ?? "0");
}

function readyBytes({ status }: FilesystemLayout, { name }: MemberSpec): number {
  const ready = status?.members?.find((member) => member.name === name && member.state === "Spare");
  return parseQuantity(ready?.size ?? "0");
}

function roundingOf(layout: FilesystemLayout, spare: MemberSpec): { readonly rounding?: Rounding } {
  const rounding = { askedBytes: askedBytesOf(spare), gotBytes: readyBytes(layout, spare) };
  return spare.size !== undefined && rounding.gotBytes > rounding.askedBytes ? { rounding } : {};
}
