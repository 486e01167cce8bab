// The shrink of a policy's that is under way, and the target that stops it: the present size, decided on itself. Pure.
import { decisionTime, isStepBefore } from "../../api/decision-time.ts";
import { asksToStay, type Filesystem, type WantedTarget } from "../../api/filesystem.ts";
import type { FilesystemLayout, MemberSpec } from "../../api/filesystem-layout.ts";
import { filesystemSizeBytes } from "../../api/filesystem-size.ts";
import { highestEpoch } from "../../api/highest-epoch.ts";
import { formatBytes, parseQuantity } from "../../units/quantity.ts";
import type { TargetToApply } from "../apply/apply-plan.ts";
import type { FilesystemFacts } from "../facts/facts.ts";
import type { Gathered } from "./gather-facts.ts";
import type { PendingTarget } from "./volume-registry.ts";

/** Undefined: none runs or is to begin, or it is the operator's own, or it merges members for a pod, which a stop would leave larger than before. */
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

/** From then on no replacement keeps the rules waiting: it is decided anew, on what there is, and what was made for it is used. */
export const REPLACEMENT_LIMIT_MS = 600_000;

/**
 * Of the shrink that stands, why nothing else is decided in its place: a driver may need minutes for the smaller member, and with each new
 * target that one would have to be made anew. Undefined: none is under way, or its size was changed by somebody else since.
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

export function targetToStay(
  { facts, filesystem, layout }: Pick<Gathered, "facts" | "filesystem" | "layout">,
  epoch: number,
): TargetToApply {
  const { sizeBytes } = facts.filesystem;
  return { sizeBytes, fromBytes: sizeBytes, epoch, decidedAt: decisionTime(facts.nowMs, layout, filesystem) };
}
