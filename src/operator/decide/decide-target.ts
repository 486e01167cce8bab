// Whether the size that the policy-engine wants becomes the layout's target. Pure. The newest decision wins, from
// whichever process it comes, and nothing that a deposed leader writes is carried on.
import { highestEpoch } from "../../contracts/formulas/decision-order.ts";
import { filesystemSizeBytes } from "../../contracts/formulas/filesystem-size.ts";
import type { Filesystem, SizeTarget, WantedTarget } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout, MemberSpec } from "../../contracts/kinds/filesystem-layout.ts";
import { nodeTarget } from "../../contracts/kinds/target.ts";
import { parseQuantity } from "../../contracts/quantities/quantity.ts";
import { isAtRest, isPart, isPresent, isRemoving } from "./layout-facts.ts";
import { withRefusals } from "./members/decide-member-state.ts";
import { after, leftByStop, takenBack } from "./members/decide-replacement.ts";
import { sharesOf, stays, sumOf } from "./members/member-bytes.ts";
import { vainGrowth } from "./members/member-growth.ts";

export type TargetPlan =
  | { readonly do: "keep" }
  | { readonly do: "copy"; readonly target: WantedTarget }
  /** A member was made to replace others, for a target that no process carries on: it goes. */
  | { readonly do: "withdraw"; readonly members: MemberSpec[] }
  /** A member's device did not follow its volume: another way is looked for. */
  | { readonly do: "settle-growth" }
  /** The writer has been deposed; the message is for the Filesystem's condition. */
  | { readonly do: "refuse"; readonly message: string };

export function decideTarget(before: FilesystemLayout, filesystem: Filesystem): TargetPlan {
  const layout = withRefusals(before);
  if (isRemoving(layout)) return { do: "keep" };
  const wanted = filesystem.spec.target;
  const seen = highestEpoch(layout);
  const isNothingNew =
    wanted === undefined || !isNewer(wanted.decidedAt, layout) || (wanted.epoch < seen && isOvertaken(layout, wanted));
  if (isNothingNew && layout.spec.backend === "span" && vainGrowth(layout) !== undefined)
    return { do: "settle-growth" };
  if (isNothingNew) return lostMembers(layout) ?? vainReplacement(layout) ?? strandedSpare(layout) ?? { do: "keep" };
  if (wanted.epoch < seen)
    return {
      do: "refuse",
      message: `a deposed leader wrote the target of ${wanted.size} (${wanted.decidedAt}, epoch ${wanted.epoch}; the latest is ${seen}): waiting for the present leader's target`,
    };
  const { members } = wanted;
  return { do: "copy", target: { ...nodeTarget(wanted), ...(members === undefined ? {} : { members }) } };
}

/** The size is there, or was decided on another one than there is: who wrote it matters no more. */
function isOvertaken(layout: FilesystemLayout, { size, from }: SizeTarget): boolean {
  const presentBytes = filesystemSizeBytes(layout);
  if (presentBytes === undefined || parseQuantity(size) > presentBytes) return false;
  return parseQuantity(size) === presentBytes || parseQuantity(from) !== presentBytes;
}

/** A time that cannot be read is newer than nothing. */
function isNewer(decidedAt: string, { spec, status }: FilesystemLayout): boolean {
  const known = [spec.target?.decidedAt, status?.operation?.decidedAt, status?.lastOperation?.decidedAt];
  return known.every((other) => other === undefined || Date.parse(decidedAt) > Date.parse(other));
}

/**
 * A target whose members were decided on while one of them was leaving, which its node had finished by then, or before the device of one was
 * found to carry something: what that one was to give is missing, and the same target is planned again with what is there. One that has ended
 * is the policy-engine's to repeat, but for what it failed of by such a device: another member is made at once.
 */
function lostMembers(layout: FilesystemLayout): TargetPlan | undefined {
  const { spec, status } = layout;
  const { backend, target } = spec;
  if (backend !== "span" || target === undefined) return undefined;
  const isEnded = status?.lastOperation?.decidedAt === target.decidedAt || hasEnded(layout, target);
  if (isEnded && !isEndedByDevice(layout, target)) return undefined;
  const parts = sharesOf(layout).filter(stays);
  const isKnown = parts.every(({ bytes }) => bytes > 0);
  const isShort = parseQuantity(target.size) > sumOf(parts);
  if (!isKnown || !isShort) return undefined;
  return { do: "copy", target: isEnded ? { ...target, decidedAt: after(target.decidedAt) } : target };
}

/** Also where an emergency came last. */
function hasEnded({ status }: FilesystemLayout, { decidedAt }: SizeTarget): boolean {
  return Date.parse(status?.endedDecidedAt ?? "") >= Date.parse(decidedAt);
}

/**
 * Whether the target itself failed by a device that carries something. The failure of an emergency says nothing of a
 * target that had ended before it, perhaps long before.
 */
function isEndedByDevice(layout: FilesystemLayout, target: SizeTarget): boolean {
  const last = layout.status?.lastOperation;
  if (layout.status?.operation || target.epoch < highestEpoch(layout)) return false;
  return last?.decidedAt === target.decidedAt && last.outcome === "Failed" && last.reason === "SignatureFound";
}

/**
 * Its target was overtaken, or its decider deposed, before it was taken in. One that is in the filesystem, whatever the layout still
 * says, stays.
 */
function strandedSpare(layout: FilesystemLayout): TargetPlan | undefined {
  const { members = [] } = layout.spec;
  const isStranded = ({ name, state, replaces }: MemberSpec): boolean =>
    replaces !== undefined && state === "Spare" && !isPresent(layout, name);
  // All members Removed means that the volume is being deleted.
  const isKept = members.some(isPart);
  if (!isAtRest(layout) || !isKept || !members.some(isStranded)) return undefined;
  return { do: "withdraw", members: members.map((one) => (isStranded(one) ? { ...one, state: "Removed" } : one)) };
}

/** The filesystem does not stay larger than before for a shrink that could not be had, or was stopped. */
function vainReplacement(layout: FilesystemLayout): TargetPlan | undefined {
  const target = layout.spec.backend === "span" ? (takenBack(layout) ?? leftByStop(layout)) : undefined;
  return target === undefined || target.epoch < highestEpoch(layout) ? undefined : { do: "copy", target };
}
