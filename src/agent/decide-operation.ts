// What the agent does next about one volume's size: pure, from what the layout wants, what the node's record says and what
// the member measures. It never acts, and it never guesses: whatever it is not sure of stays as it is.
import type { Operation } from "../api/filesystem-layout.ts";
import { formatBytes } from "../units/quantity.ts";

export type OperationKind = "Extend" | "Shrink";

/** spec.target, in bytes. */
export interface TargetFacts {
  readonly sizeBytes: number;
  readonly fromBytes: number;
  readonly epoch: number;
  readonly decidedAt: string;
}

/** The operation that this process carries out at this moment. */
export interface RunningFacts {
  readonly kind: OperationKind;
  readonly decidedAt: string | undefined;
  readonly cancelling: boolean;
}

export interface OperationFacts {
  readonly mounted: boolean;
  /** The member's size as measured now; undefined: it was not found. */
  readonly sizeBytes: number | undefined;
  /** False while the API server has not been heard: the target may be an old one. */
  readonly layoutKnown: boolean;
  /** The layout asks for the member's deletion. */
  readonly removalWanted: boolean;
  readonly removed: boolean;
  readonly target: TargetFacts | undefined;
  /** The highest epoch ever accepted for this volume. */
  readonly highestEpoch: number;
  /** The target that was carried out, or given up, last. */
  readonly endedDecidedAt: string | undefined;
  readonly running: RunningFacts | undefined;
  /** Recorded as running, but by an agent that is no more. */
  readonly interrupted: Operation | undefined;
}

/** Why nothing is done. */
export type IdleReason =
  | "AtTarget"
  | "DecidedOnAnotherSize"
  | "MemberMissing"
  | "MemberRemoved"
  | "NoTarget"
  | "NotMounted"
  | "OperationInProgress"
  | "StillMounted"
  | "TargetEnded"
  | "WaitingForLayout";

export type OperationDecision =
  | { readonly act: "Nothing"; readonly reason: IdleReason; readonly message: string }
  /** A deposed leader's target. */
  | { readonly act: "Refuse"; readonly message: string }
  | { readonly act: "Start"; readonly kind: OperationKind; readonly target: TargetFacts; readonly fromBytes: number }
  | { readonly act: "Resume"; readonly operation: Operation }
  /** Ends an interrupted operation where it stands. */
  | { readonly act: "Abandon"; readonly operation: Operation; readonly message: string }
  | { readonly act: "CancelShrink"; readonly message: string }
  | { readonly act: "RemoveMember" };

type Check = (facts: OperationFacts) => OperationDecision | undefined;

// Order matters: teardown before anything else, what runs before what should run, and the past before the target.
const CHECKS: readonly Check[] = [removal, whatRuns, unusable, interruption, staleEpoch, endedTarget];

/** Total: every set of facts has exactly one answer. */
export function decideOperation(facts: OperationFacts): OperationDecision {
  for (const check of CHECKS) {
    const decision = check(facts);
    if (decision !== undefined) return decision;
  }
  return towardsTarget(facts);
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
  const wantsMore = target.sizeBytes > target.fromBytes || target.sizeBytes > (sizeBytes ?? Number.POSITIVE_INFINITY);
  if (!wantsMore) return busy;
  return { act: "CancelShrink", message: `an extend to ${formatBytes(target.sizeBytes)} goes first` };
}

function unusable({ mounted, sizeBytes }: OperationFacts): OperationDecision | undefined {
  if (!mounted) return nothing("NotMounted", "no pod on this node uses the filesystem");
  if (sizeBytes === undefined) return nothing("MemberMissing", "the member was not found on this node");
  return undefined;
}

/** An extend is finished in any case; a shrink only while it is still what the engine wants. */
function interruption({
  interrupted,
  layoutKnown,
  target,
  highestEpoch,
}: OperationFacts): OperationDecision | undefined {
  if (interrupted === undefined) return undefined;
  if (interrupted.kind === "Extend") return { act: "Resume", operation: interrupted };
  if (!layoutKnown)
    return nothing(
      "WaitingForLayout",
      "the interrupted shrink waits until the API server says that it is still wanted",
    );
  if (target !== undefined && target.decidedAt === interrupted.decidedAt && target.epoch >= highestEpoch)
    return { act: "Resume", operation: interrupted };
  return { act: "Abandon", operation: interrupted, message: "interrupted, and another size has been decided since" };
}

function staleEpoch({ target, highestEpoch }: OperationFacts): OperationDecision | undefined {
  if (target === undefined || target.epoch >= highestEpoch) return undefined;
  return {
    act: "Refuse",
    message: `the target of epoch ${target.epoch} is refused: a leader of epoch ${highestEpoch} has written since`,
  };
}

/** An older one, too: objects restored from a backup carry targets that were carried out long ago. */
function endedTarget({ target, endedDecidedAt }: OperationFacts): OperationDecision | undefined {
  if (target === undefined || endedDecidedAt === undefined) return undefined;
  const isEnded = target.decidedAt === endedDecidedAt || Date.parse(target.decidedAt) <= Date.parse(endedDecidedAt);
  if (!isEnded) return undefined;
  return nothing("TargetEnded", `the target of ${target.decidedAt} has been carried out or given up`);
}

function towardsTarget({ target, sizeBytes }: OperationFacts): OperationDecision {
  if (target === undefined || sizeBytes === undefined) return nothing("NoTarget", "no size has been decided");
  if (target.sizeBytes === sizeBytes) return nothing("AtTarget", `the size is ${formatBytes(sizeBytes)}, as decided`);
  if (target.sizeBytes > sizeBytes) return { act: "Start", kind: "Extend", target, fromBytes: sizeBytes };
  if (target.fromBytes === sizeBytes) return { act: "Start", kind: "Shrink", target, fromBytes: sizeBytes };
  return nothing(
    "DecidedOnAnotherSize",
    `the shrink was decided at ${formatBytes(target.fromBytes)}, the size is ${formatBytes(sizeBytes)}`,
  );
}

function nothing(reason: IdleReason, message: string): OperationDecision {
  return { act: "Nothing", reason, message };
}
