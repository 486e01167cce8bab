// What the agent does next about one volume's size: pure, from what the layout wants, what the node's record says and what
// the member measures. It never acts, and it never guesses: whatever it is not sure of stays as it is.
import type { Operation, OperationKind } from "../../contracts/kinds/filesystem-layout.ts";
import type { Target } from "../../contracts/kinds/target.ts";
import { formatBytes, parseQuantity } from "../../contracts/quantities/quantity.ts";

/** The operation that this process carries out at this moment. */
export interface RunningFacts {
  readonly kind: OperationKind;
  readonly decidedAt: string | undefined;
  readonly cancelling: boolean;
}

/** A member next to the filesystem, not in it, whose device its node has checked. */
export interface ReadySpare {
  readonly name: string;
  readonly sizeBytes: number;
  /** It waits to take others' place. */
  readonly replaces: boolean;
}

/** Of a filesystem of several members. */
export interface SpanMemberFacts {
  /** What it can grow to with the members that are on this node now, bytes. */
  readonly attainableBytes: number;
  /** Spares that are ready on this node, which an emergency may take in addition to that; no target takes them. */
  readonly spares: readonly ReadySpare[];
  /** A spare is attached to this node, and not ready yet. */
  readonly spareToPrepare: boolean;
  /** Wanted members that are not on this node yet, for people. */
  readonly awaited: string | undefined;
  /** Members that shall leave are in it still. */
  readonly leaving: boolean;
  /** Members that shall leave are out of the filesystem, but not released yet. */
  readonly unreleased: boolean;
}

export interface OperationFacts {
  readonly mounted: boolean;
  /** The mounted filesystem takes no writes, so that no size of it can change. */
  readonly readOnly: boolean;
  /** The member's size as measured now; undefined: it was not found. */
  readonly sizeBytes: number | undefined;
  /** False while the API server has not been heard: the target may be an old one. */
  readonly layoutKnown: boolean;
  /** The layout asks for the member's deletion. */
  readonly removalWanted: boolean;
  readonly removed: boolean;
  /** It is never made smaller while it is mounted: decideUnmountedShrink says when. */
  readonly shrinksOnlyUnmounted: boolean;
  /** Undefined: its one member takes any size. */
  readonly members: SpanMemberFacts | undefined;
  readonly target: Target | undefined;
  /** The highest epoch ever accepted for this volume. */
  readonly highestEpoch: number;
  /** The target that was carried out, or given up, last. */
  readonly endedDecidedAt: string | undefined;
  readonly running: RunningFacts | undefined;
  /** Recorded as running, but the agent that ran it has ended. */
  readonly interrupted: Operation | undefined;
}

/** Why nothing is done. */
export type IdleReason =
  | "AtTarget"
  | "DecidedOnAnotherSize"
  | "MemberMissing"
  | "MemberRemoved"
  | "NoMemberLeaves"
  | "NoTarget"
  | "NotMounted"
  | "OperationInProgress"
  | "ReadOnly"
  | "StillMounted"
  | "TargetEnded"
  | "WaitingForLayout"
  | "WaitingForMember"
  | "WaitingForUnmount";

export type OperationDecision =
  | { readonly act: "Nothing"; readonly reason: IdleReason; readonly message: string }
  /** A deposed leader's target. */
  | { readonly act: "Refuse"; readonly message: string }
  | {
      readonly act: "Start";
      readonly kind: OperationKind;
      readonly target: Target;
      readonly fromBytes: number;
      readonly toBytes: number;
    }
  | { readonly act: "Resume"; readonly operation: Operation }
  /** Ends an interrupted operation where it stands. */
  | { readonly act: "Abandon"; readonly operation: Operation; readonly message: string }
  | { readonly act: "CancelShrink"; readonly message: string }
  | { readonly act: "RemoveMember" }
  /** And whatever comes of that: a spare is brought here as well, where one is to be prepared. */
  | { readonly act: "ReleaseMembers"; readonly spareToPrepare: boolean }
  | { readonly act: "PrepareSpares" };

/** The engine wants no other size than the one that it decided on: what shrinks stops. */
function keepsSize({ sizeBytes, fromBytes }: Target): boolean {
  return sizeBytes === fromBytes;
}

type Check = (facts: OperationFacts) => OperationDecision | undefined;

// Order matters: teardown before anything else, what runs before what should run, and the past before the target.
const CHECKS: readonly Check[] = [removal, whatRuns, interruptedUnmounted, unusable, interruption];

/** Total: every set of facts has exactly one answer. */
export function decideOperation(facts: OperationFacts): OperationDecision {
  const decision = firstOf(CHECKS, facts);
  if (decision !== undefined) return decision;
  const wanted = endedTarget(facts) ?? ofThisEpoch(facts, towardsTarget(facts));
  // A driver that does not take its member back holds nothing up.
  if (wanted.act !== "Nothing") return wanted;
  const { unreleased: unsettled = false, spareToPrepare = false } = facts.members ?? {};
  if (unsettled) return { act: "ReleaseMembers", spareToPrepare };
  return spareToPrepare ? { act: "PrepareSpares" } : wanted;
}

function firstOf(checks: readonly Check[], facts: OperationFacts): OperationDecision | undefined {
  for (const check of checks) {
    const decision = check(facts);
    if (decision !== undefined) return decision;
  }
  return undefined;
}

function removal(facts: OperationFacts): OperationDecision | undefined {
  if (!facts.removalWanted) return undefined;
  if (facts.removed) return nothing("MemberRemoved", "the member has been deleted");
  if (facts.mounted) return nothing("StillMounted", "the member is deleted once the filesystem is unmounted");
  return { act: "RemoveMember" };
}

function whatRuns({ running, target, sizeBytes, highestEpoch }: OperationFacts): OperationDecision | undefined {
  if (running === undefined) return undefined;
  const busy = nothing("OperationInProgress", `the ${running.kind} is running`);
  if (running.kind === "Extend" || running.cancelling || target === undefined) return busy;
  if (target.decidedAt === running.decidedAt || target.epoch < highestEpoch) return busy;
  if (keepsSize(target)) return { act: "CancelShrink", message: "it is no longer wanted; the size stays as it is" };
  const wantsMore = target.sizeBytes > target.fromBytes || target.sizeBytes > (sizeBytes ?? Number.POSITIVE_INFINITY);
  if (!wantsMore) return busy;
  return { act: "CancelShrink", message: `an extend to ${formatBytes(target.sizeBytes)} goes first` };
}

/** Storage has ended it, one way or the other, before the volume is mounted or decided upon. */
function interruptedUnmounted({ interrupted, shrinksOnlyUnmounted }: OperationFacts): OperationDecision | undefined {
  if (!shrinksOnlyUnmounted || interrupted?.kind !== "Shrink") return undefined;
  return { act: "Abandon", operation: interrupted, message: "interrupted while it was not mounted" };
}

function unusable({ mounted, readOnly, sizeBytes }: OperationFacts): OperationDecision | undefined {
  if (!mounted) return nothing("NotMounted", "no pod on this node uses the filesystem");
  if (readOnly) return nothing("ReadOnly", "the filesystem is read-only: its size stays until it takes writes again");
  if (sizeBytes === undefined) return nothing("MemberMissing", "the member was not found on this node");
  return undefined;
}

/** An extend is finished in any case; a shrink only while it is still what the engine wants. */
function interruption({
  interrupted,
  layoutKnown,
  target,
  highestEpoch,
  members,
}: OperationFacts): OperationDecision | undefined {
  if (interrupted === undefined) return undefined;
  if (interrupted.kind === "Extend") return resumeExtend(interrupted, members);
  if (!layoutKnown)
    return nothing(
      "WaitingForLayout",
      "the interrupted shrink waits until the API server says that it is still wanted",
    );
  if (target !== undefined && target.decidedAt === interrupted.decidedAt && target.epoch >= highestEpoch)
    return { act: "Resume", operation: interrupted };
  return { act: "Abandon", operation: interrupted, message: "interrupted, and another size has been decided since" };
}

/** It was begun with members that may have gone to another node together with the volume, and not have come yet. */
function resumeExtend(operation: Operation, members: SpanMemberFacts | undefined): OperationDecision {
  const isShort = members !== undefined && members.attainableBytes < parseQuantity(operation.to);
  if (!isShort || members.awaited === undefined) return { act: "Resume", operation };
  return nothing("WaitingForMember", `the interrupted extend to ${operation.to} waits for ${members.awaited}`);
}

/** A deposed leader's target is refused where it would change the size, now or later: one that is overtaken stalls nothing. */
function ofThisEpoch({ target, highestEpoch }: OperationFacts, wanted: OperationDecision): OperationDecision {
  const isOvertaken =
    wanted.act === "Nothing" && (wanted.reason === "AtTarget" || wanted.reason === "DecidedOnAnotherSize");
  if (target === undefined || target.epoch >= highestEpoch || isOvertaken) return wanted;
  return {
    act: "Refuse",
    message: `the target of epoch ${target.epoch} is refused: a leader of epoch ${highestEpoch} has written since`,
  };
}

/**
 * Also true of a target older than the last one that ended: objects restored from a backup carry targets that were carried out long before.
 */
function endedTarget({ target, endedDecidedAt }: OperationFacts): OperationDecision | undefined {
  if (target === undefined || endedDecidedAt === undefined) return undefined;
  const isEnded = target.decidedAt === endedDecidedAt || Date.parse(target.decidedAt) <= Date.parse(endedDecidedAt);
  if (!isEnded) return undefined;
  return nothing("TargetEnded", `the target of ${target.decidedAt} has been carried out or given up`);
}

function towardsTarget({ target, sizeBytes, members, shrinksOnlyUnmounted }: OperationFacts): OperationDecision {
  if (target === undefined || sizeBytes === undefined) return nothing("NoTarget", "no size has been decided");
  // Decided while a shrink ran, which may have come further since: what was reached stays.
  if (keepsSize(target)) return nothing("AtTarget", `the size of ${formatBytes(sizeBytes)} stays, as decided`);
  if (target.sizeBytes === sizeBytes) return nothing("AtTarget", `the size is ${formatBytes(sizeBytes)}, as decided`);
  if (target.sizeBytes > sizeBytes) return extend(target, sizeBytes, members);
  if (target.fromBytes === sizeBytes)
    return shrinksOnlyUnmounted
      ? nothing("WaitingForUnmount", `the shrink to ${formatBytes(target.sizeBytes)} waits for the next unmount`)
      : shrink(target, sizeBytes, members);
  return nothing(
    "DecidedOnAnotherSize",
    `the size was decided at ${formatBytes(target.fromBytes)}, and is ${formatBytes(sizeBytes)} now`,
  );
}

/** With the members that are here, as far as they go: the rest comes with the others. */
function extend(target: Target, fromBytes: number, members: SpanMemberFacts | undefined): OperationDecision {
  const toBytes = Math.min(target.sizeBytes, members?.attainableBytes ?? target.sizeBytes);
  if (toBytes > fromBytes) return { act: "Start", kind: "Extend", target, fromBytes, toBytes };
  const awaited = members?.awaited ?? "a member that its layout does not have yet";
  return nothing("WaitingForMember", `the extend to ${formatBytes(target.sizeBytes)} waits for ${awaited}`);
}

function shrink(target: Target, fromBytes: number, members: SpanMemberFacts | undefined): OperationDecision {
  if (members === undefined || members.leaving)
    return { act: "Start", kind: "Shrink", target, fromBytes, toBytes: target.sizeBytes };
  return nothing("NoMemberLeaves", `no member shall leave for the shrink to ${formatBytes(target.sizeBytes)}`);
}

function nothing(reason: IdleReason, message: string): OperationDecision {
  return { act: "Nothing", reason, message };
}

export type UnmountedShrinkDecision = OperationDecision & { readonly act: "Start" };

/**
 * Whether a filesystem that has just been unmounted is made smaller now; undefined: it stays as it is. The same checks as for a mounted one,
 * and the target's own end of time: what was decided for a window is not done after it.
 */
export function decideUnmountedShrink(facts: OperationFacts, nowMs: number): UnmountedShrinkDecision | undefined {
  const { shrinksOnlyUnmounted, mounted, layoutKnown, target } = facts;
  if (!shrinksOnlyUnmounted || mounted || !layoutKnown || target?.notAfterMs === undefined) return undefined;
  // NaN compares false, so a time that cannot be read counts as past.
  if (!(nowMs < target.notAfterMs)) return undefined;
  const decision = decideOperation({ ...facts, mounted: true, shrinksOnlyUnmounted: false });
  return decision.act === "Start" && decision.kind === "Shrink" ? decision : undefined;
}
