// Whether the size that the policy-engine wants becomes the layout's target. Pure. The newest decision wins, whoever made
// it, and nothing that a deposed leader writes is carried on.

import type { Filesystem, SizeTarget, WantedTarget } from "../../api/filesystem.ts";
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { filesystemSizeBytes } from "../../api/filesystem-size.ts";
import { highestEpoch } from "../../api/highest-epoch.ts";
import { parseQuantity } from "../../units/quantity.ts";
import { after, leftByStop, takenBack } from "../member/decide-replacement.ts";
import { vainGrowth } from "../member/member-growth.ts";
import { sharesOf, stays, sumOf } from "../member/member-shares.ts";
import { withRefusals } from "../member/refused-members.ts";
import { isAtRest, isPart, isPresent, isRemoving } from "./layout-facts.ts";

export type TargetPlan =
  | { readonly do: "keep" }
  | { readonly do: "copy"; readonly target: WantedTarget }
  /** What was made to take others' place waits for a target that is carried on by nobody: it goes. */
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
      message:
        `the target of ${wanted.size}, decided at ${wanted.decidedAt}, carries epoch ${wanted.epoch}, but epoch ${seen} has been seen: ` +
        "a deposed leader wrote it, and it is not carried out; the present leader's next target replaces it",
    };
  const { size, from, epoch, decidedAt, notAfter, members } = wanted;
  return {
    do: "copy",
    target: {
      size,
      from,
      epoch,
      decidedAt,
      ...(notAfter === undefined ? {} : { notAfter }),
      ...(members === undefined ? {} : { members }),
    },
  };
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

/** By its own end. What an emergency failed of says nothing of a target that had ended before it, perhaps long ago. */
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
