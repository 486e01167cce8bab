// The shrink of a policy's that is under way, and the targets that put the present size in a target's place: to stop one, or where a deposed
// leader's was refused. Pure.

import { decisionTime, highestEpoch, isStepBefore } from "../../contracts/formulas/decision-order.ts";
import { filesystemSizeBytes } from "../../contracts/formulas/filesystem-size.ts";
import { asksToStay, type Filesystem, type WantedTarget } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout, MemberSpec } from "../../contracts/kinds/filesystem-layout.ts";
import type { DecidedTarget } from "../../contracts/kinds/target.ts";
import { formatBytes, parseQuantity } from "../../contracts/quantities/quantity.ts";
import type { Facts, FilesystemFacts, ShrinkUnderWay } from "../facts/facts.ts";
import type { PendingTarget } from "./volume-registry.ts";

/**
 * Undefined: no shrink runs or is to begin, or it is the operator's own, or it merges members for a pod, which a stop would leave larger
 * than before.
 */
export function policyShrinkOf(
  { spec: { target } }: Filesystem,
  layout: FilesystemLayout,
  pending: PendingTarget | undefined,
): FilesystemFacts["policyShrink"] {
  const operation = layout.status?.operation;
  const begun = operation?.kind === "Shrink" ? operation.decidedAt : undefined;
  const written = pending?.kind === "Shrink" && pending.planned === undefined ? pending.decidedAt : undefined;
  const running = begun ?? written ?? (isAwaited(target, layout) ? target?.decidedAt : undefined);
  if (target === undefined || running === undefined || target.members !== undefined) return undefined;
  if (target.decidedAt === running)
    return parseQuantity(target.size) < parseQuantity(target.from) ? "Running" : undefined;
  return asksToStay(target) && Date.parse(target.decidedAt) > Date.parse(running) ? "Stopping" : undefined;
}

/** Of the shrink that policyShrinkOf says is running; what stands in its place says what it was no longer. */
export function shrinkUnderWay({ spec: { target } }: Filesystem): ShrinkUnderWay | undefined {
  return target && { sizeBytes: parseQuantity(target.size), policy: target.policy, rule: target.rule };
}

/**
 * Written more than 30 s before and not ended: its node was away, or the operator makes what is to take a larger member's place, and lets
 * that leave once it has come. What was decided on another size, or by a deposed leader, is begun by no node.
 */
function isAwaited(target: WantedTarget | undefined, layout: FilesystemLayout): boolean {
  const { spec, status } = layout;
  if (target === undefined || target.notAfter !== undefined || target.epoch < highestEpoch(layout)) return false;
  const decidedMs = Date.parse(target.decidedAt);
  const isOver = [status?.lastOperation?.decidedAt, status?.endedDecidedAt].some(
    (at) => Date.parse(at ?? "") >= decidedMs,
  );
  const isOvertaken = Date.parse(spec.target?.decidedAt ?? "") > decidedMs;
  if (isOver || isOvertaken) return false;
  return madeFor(target, layout) !== undefined || filesystemSizeBytes(layout) === parseQuantity(target.from);
}

/** The member that the operator makes for the target, to take a larger one's place. */
function madeFor({ decidedAt }: WantedTarget, { spec }: FilesystemLayout): MemberSpec | undefined {
  return spec.members?.find(({ replaces, state }) => replaces?.decidedAt === decidedAt && state !== "Removed");
}

/** From then on a replacement no longer holds the rules: they decide again, on what there is, and what was made for it is used. */
export const REPLACEMENT_LIMIT_MS = 600_000;

/**
 * Of the shrink that stands, why nothing else is decided in its place: a driver may need minutes for the smaller member, and each new
 * target would have it recreated. Undefined: no replacement is under way, or another process has changed its size since.
 */
export function replacementOf(
  { spec: { target } }: Filesystem,
  layout: FilesystemLayout,
  nowMs: number,
): string | undefined {
  if (target === undefined || target.members !== undefined || !isAwaited(target, layout)) return undefined;
  const made = madeFor(target, layout);
  const isTooLong = Math.abs(nowMs - Date.parse(target.decidedAt)) >= REPLACEMENT_LIMIT_MS;
  if (made === undefined || isTooLong || hasFailedFirst(target, layout)) return undefined;
  const presentBytes = filesystemSizeBytes(layout) ?? 0;
  const sizes = [0, madeBytes(made, layout)].map((bytes) => parseQuantity(target.from) + bytes);
  if (!sizes.includes(presentBytes)) return undefined;
  return `member ${made.name} takes the place of ${made.replaces?.member}, for the ${formatBytes(parseQuantity(target.size))} decided at ${target.decidedAt}`;
}

/** 0 until its node has taken it in. */
function madeBytes({ name }: MemberSpec, { status }: FilesystemLayout): number {
  const reported = status?.members?.find((one) => one.name === name);
  return reported?.state === "Present" ? parseQuantity(reported.size) : 0;
}

/** The extend that was to take it in. */
function hasFailedFirst({ decidedAt }: WantedTarget, { status }: FilesystemLayout): boolean {
  const last = status?.lastOperation;
  return last?.decidedAt !== undefined && isStepBefore(last.decidedAt, decidedAt) && last.outcome !== "Succeeded";
}

interface Seen {
  readonly facts: Facts;
  readonly filesystem: Filesystem;
  readonly layout: FilesystemLayout;
}

export function targetToStay({ facts, filesystem, layout }: Seen, epoch: number): DecidedTarget {
  const { sizeBytes } = facts.filesystem;
  const decidedAt = decisionTime(facts.nowMs, layout, filesystem);
  const unlimited = { notAfterMs: undefined, members: undefined, why: undefined };
  return { sizeBytes, fromBytes: sizeBytes, epoch, decidedAt, ...unlimited };
}

// A deposed leader's target that came too late is refused by operator and agent, and the volume is Stalled for it. Where the present
// leader wants no other size, it puts the present one in its place.

/**
 * Undefined: no target stands that was refused. An ordinary claim's is left: its request is never lowered. So is one that merges members
 * of a filesystem that is larger for it: it alone says what size is to come back, and the present leader decides that again.
 */
export function inPlaceOfDeposed({ facts, filesystem, layout }: Seen, epoch: number): DecidedTarget | undefined {
  const { operationInProgress, consolidation, sizeBytes } = facts.filesystem;
  const { target } = filesystem.spec;
  const isRefused = filesystem.status?.conditions?.some(
    ({ type, status, reason }) => type === "Stalled" && status === "True" && reason === "StaleEpoch",
  );
  if (target === undefined || target.epoch >= epoch || isRefused !== true || isUnderWay(layout)) return undefined;
  if (operationInProgress !== undefined || layout.spec.backend === "claim") return undefined;
  if (consolidation !== undefined && consolidation.sizeBytes < sizeBytes) return undefined;
  return targetToStay({ facts, filesystem, layout }, epoch);
}

/**
 * A raised request, which stands on the layout alone, may wait for its member for minutes. The node never starts what a deposed leader
 * decided.
 */
function isUnderWay(layout: FilesystemLayout): boolean {
  const { target } = layout.spec;
  if (target === undefined || target.epoch < highestEpoch(layout)) return false;
  return target.decidedAt !== layout.status?.lastOperation?.decidedAt;
}
