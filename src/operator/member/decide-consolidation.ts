// A filesystem of fewer members and the same size, for the attach slots that the others take: its smallest members are merged into a
// larger one. That one grows first, in an extend that is decided a moment before the target; then they leave, as members do in any
// shrink. So it takes no slot more, and the filesystem is never smaller than before. Pure, and decided anew at each step.
import { stepBefore } from "../../api/decision-time.ts";
import type { SizeTarget, WantedTarget } from "../../api/filesystem.ts";
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { filesystemSizeBytes } from "../../api/filesystem-size.ts";
import { formatBytes, formatQuantity, parseQuantity, wholeGiB } from "../../units/quantity.ts";
import { isRemoving } from "../volume/layout-facts.ts";
import { type Share, sharesOf, stays, sumOf } from "./member-shares.ts";

/** A target that says how many members there shall be. */
export type ConsolidationTarget = WantedTarget & { readonly members: number };

export type ConsolidationStep =
  /** Nothing is left to merge: the target is as good as carried out. */
  | { readonly do: "none"; readonly target: SizeTarget }
  | { readonly do: "grow"; readonly name: string; readonly sizeBytes: number; readonly target: SizeTarget }
  /** The one that grew has room for what is on these. */
  | { readonly do: "leave"; readonly names: readonly string[]; readonly target: SizeTarget }
  | { readonly do: "wait"; readonly message: string }
  /** Something else has come between: it is for the policy-engine to decide anew. */
  | { readonly do: "give-up"; readonly message: string };

/** Which members are merged, and into which one. */
export interface Merge {
  readonly leaving: readonly Share[];
  readonly growing: Share;
  /** What the one that stays has to grow by so that the filesystem keeps this size without the others; 0: it has that room. */
  readonly growthBytes: number;
}

/** The smallest leave, of equal ones those that came last: the least data moves. Undefined: there are no more than that. */
export function mergeInto(count: number, staying: readonly Share[], sizeBytes: number): Merge | undefined {
  const largestFirst = [...staying].sort((a, b) => b.bytes - a.bytes);
  const [growing] = largestFirst;
  const leaving = largestFirst.slice(count);
  if (growing === undefined || count < 1 || leaving.length === 0) return undefined;
  const missingBytes = Math.max(0, sizeBytes - sumOf(largestFirst.slice(0, count)));
  const growthBytes = missingBytes === 0 ? 0 : wholeGiB(growing.bytes + missingBytes) - growing.bytes;
  return { leaving, growing, growthBytes };
}

export function nextConsolidationStep(layout: FilesystemLayout, wanted: ConsolidationTarget): ConsolidationStep {
  const { members: most, ...target } = wanted;
  const presentBytes = filesystemSizeBytes(layout);
  const growth = { ...target, decidedAt: stepBefore(target.decidedAt) };
  if (presentBytes === undefined || !isWhole(layout) || layout.status?.operation)
    return { do: "wait", message: `its members are merged into ${most} once it is mounted and made of all of them` };
  const staying = reportedShares(layout).filter(stays);
  const merge = mergeInto(most, staying, parseQuantity(target.size));
  const present = formatQuantity(presentBytes);
  if (merge === undefined) return { do: "none", target: { ...target, size: present, from: present } };
  const isOfSize = presentBytes === parseQuantity(target.from);
  if (merge.growthBytes === 0 && (isOfSize || hasEnded(layout, growth.decidedAt)))
    return leave(target, merge, presentBytes);
  if (!isOfSize || hasFailed(layout, growth.decidedAt)) return changedMeanwhile(wanted, presentBytes);
  const sizeBytes = merge.growing.bytes + merge.growthBytes;
  const { name } = merge.growing.member;
  if (layout.spec.target?.decidedAt === growth.decidedAt)
    return { do: "wait", message: `member ${name} grows to ${formatBytes(sizeBytes)}; then ${namesOf(merge)} leave` };
  return { do: "grow", name, sizeBytes, target: { ...growth, size: formatQuantity(presentBytes + merge.growthBytes) } };
}

/** Its first step is decided, or one that came to nothing left the filesystem larger than it is to be. */
export function hasBegun(layout: FilesystemLayout, { size, decidedAt }: WantedTarget): boolean {
  const { spec, status } = layout;
  const first = stepBefore(decidedAt);
  const isLarger = (filesystemSizeBytes(layout) ?? 0) > parseQuantity(size);
  return isLarger || spec.target?.decidedAt === first || status?.lastOperation?.decidedAt === first;
}

function leave(target: SizeTarget, { leaving }: Merge, presentBytes: number): ConsolidationStep {
  const size = formatQuantity(presentBytes - sumOf(leaving));
  const names = leaving.map(({ member }) => member.name);
  return { do: "leave", names, target: { ...target, size, from: formatQuantity(presentBytes) } };
}

/** Whoever has changed its size meanwhile, an emergency for one, has decided otherwise. */
function changedMeanwhile({ members, from }: ConsolidationTarget, presentBytes: number): ConsolidationStep {
  return {
    do: "give-up",
    message:
      `merging it into ${members} member${members === 1 ? "" : "s"} was decided at ${from}, and it has ${formatBytes(presentBytes)} now, or ` +
      "its member could not grow; it is decided anew",
  };
}

function namesOf({ leaving }: Merge): string {
  return leaving.map(({ member }) => member.name).join(", ");
}

/** As the node has them: what was ordered is not there yet. */
function reportedShares(layout: FilesystemLayout): Share[] {
  const reported = new Map(layout.status?.members?.map(({ name, size }) => [name, parseQuantity(size)]));
  return sharesOf(layout).map(({ member }) => ({ member, bytes: reported.get(member.name) ?? 0 }));
}

function hasEnded({ status }: FilesystemLayout, decidedAt: string): boolean {
  return status?.lastOperation?.outcome === "Succeeded" && status.lastOperation.decidedAt === decidedAt;
}

function hasFailed({ status }: FilesystemLayout, decidedAt: string): boolean {
  return status?.lastOperation?.outcome !== "Succeeded" && status?.lastOperation?.decidedAt === decidedAt;
}

/** Mounted on its node, and made of just the members that it shall have; none comes, leaves or takes another's place. */
export function isWhole(layout: FilesystemLayout): boolean {
  const { spec, status } = layout;
  if (isRemoving(layout) || status?.mounted !== true || status.nodeName !== spec.nodeName) return false;
  const isPresent = ({ name }: MemberSpec): boolean =>
    status.members?.some((member) => member.name === name && member.state === "Present") === true;
  return (spec.members ?? []).every(
    (member) =>
      member.replaces === undefined && member.state !== "Removed" && isPresent(member) === (member.state !== "Spare"),
  );
}
