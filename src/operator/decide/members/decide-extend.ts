// What makes a span larger for a target: a spare that is ready, the last member grown in place, or a new member. Pure.
// One step covers all that is missing, in whole GiB, and no member is made in the place that is reserved for the spare.
// Where the class has lately failed to grow a member, one is added as long as there is a place. Without a place growth
// is still tried.
import type { FilesystemLayout } from "../../../contracts/kinds/filesystem-layout.ts";
import { formatBytes, parseQuantity, wholeGiB } from "../../../contracts/quantities/quantity.ts";
import { isBeside, isPresent } from "../layout-facts.ts";
import { isRefused, tooManyRefused } from "./decide-member-state.ts";
import { type Share, stays, sumOf } from "./member-bytes.ts";
import { MERGING_MEMBERS_LIMIT, type MemberRules } from "./member-rules.ts";

export type ExtendStep =
  /** The members that stay are enough. */
  | { readonly do: "none" }
  | { readonly do: "take-spare"; readonly name: string }
  | { readonly do: "grow"; readonly name: string; readonly sizeBytes: number }
  | { readonly do: "add"; readonly sizeBytes: number }
  | { readonly do: "hold"; readonly message: string };

/** What the members' class can do: whether it allows volume expansion, and whether a growth has failed lately. */
export interface ClassGrowth {
  readonly mayGrow: boolean;
  readonly growthFailed: boolean;
}

export function nextExtendStep(
  layout: FilesystemLayout,
  sizeBytes: number,
  shares: readonly Share[],
  rules: MemberRules,
  { mayGrow, growthFailed }: ClassGrowth,
): ExtendStep {
  const staying = shares.filter(stays);
  const missingBytes = sizeBytes - sumOf(staying);
  if (missingBytes <= 0) return { do: "none" };
  const hasPlace = staying.length < rules.maxMembers - rules.spareMembers;
  const spare = hasPlace ? shares.find((share) => isSpareFor(layout, share, missingBytes, staying)) : undefined;
  if (spare !== undefined) return { do: "take-spare", name: spare.member.name };
  const last = staying.at(-1);
  // A member on its way out holds up no extend, as long as the layout has room for both.
  const usable = shares.filter(({ member }) => !isRefused(member));
  const hasRoom =
    usable.length < MERGING_MEMBERS_LIMIT && tooManyRefused(shares.map(({ member }) => member)) === undefined;
  const mayAdd = hasPlace && hasRoom && rules.strategy !== "GrowMember";
  // Whose volume was expanded already, and whose device may have followed since, goes first: it is paid for.
  const growing = staying.find(isPaidForMore) ?? last;
  if (mayGrow && growing !== undefined && rules.strategy !== "AddMember" && !(growthFailed && mayAdd))
    return { do: "grow", name: growing.member.name, sizeBytes: wholeGiB(growing.bytes + missingBytes) };
  if (mayAdd) return { do: "add", sizeBytes: wholeGiB(missingBytes) };
  return { do: "hold", message: whyNotLarger(rules, mayGrow, missingBytes, whyNoneAdded(shares, rules)) };
}

function isPaidForMore({ member, bytes }: Share): boolean {
  return parseQuantity(member.source.claim?.capacity ?? "0") > bytes;
}

/**
 * A spare that its node has ready covers what is missing at once. One that is larger than what would be made in its
 * place is taken where an emergency, granted in advance, may take it.
 */
function isSpareFor(
  layout: FilesystemLayout,
  { member, bytes }: Share,
  missingBytes: number,
  staying: readonly Share[],
): boolean {
  const grantedBytes = parseQuantity(layout.spec.emergency?.size ?? "0") - sumOf(staying);
  const mostBytes = wholeGiB(Math.max(missingBytes, grantedBytes));
  return member.state === "Spare" && isBeside(layout, member.name) && bytes >= missingBytes && bytes <= mostBytes;
}

function whyNotLarger(rules: MemberRules, mayGrow: boolean, missingBytes: number, noneAdded: string): string {
  const grow = mayGrow
    ? `the strategy ${rules.strategy} grows none in place`
    : `class ${rules.className} does not allow volume expansion`;
  return `${formatBytes(missingBytes)} more are wanted, but ${grow}, and ${noneAdded}`;
}

/** Members on their way out do not count towards `maxMembers`, but have places in the layout until they have left. */
function whyNoneAdded(shares: readonly Share[], { strategy, maxMembers, spareMembers }: MemberRules): string {
  if (strategy === "GrowMember") return "the strategy GrowMember adds none";
  const refused = tooManyRefused(shares.map(({ member }) => member));
  if (refused !== undefined) return refused;
  const { length } = shares.filter(stays);
  if (length < maxMembers - spareMembers) {
    const leaving = shares.filter(({ member }) => member.state === "Removed").map(({ member }) => member.name);
    return `no further one has a place before the removal of ${leaving.join(", ")} (${length} members of at most ${maxMembers} stay)`;
  }
  return `${length} members of at most ${maxMembers} are there${spareMembers > 0 ? ", and one place is reserved for the spare" : ""}`;
}

/** An extend takes a removal back that its node has not finished: what is still in the filesystem stays there. */
export function withoutRemovals(layout: FilesystemLayout, shares: readonly Share[]): Share[] {
  return shares.map((share) =>
    share.member.state === "Removed" && isPresent(layout, share.member.name)
      ? { ...share, member: { ...share.member, state: "Present" } }
      : share,
  );
}
