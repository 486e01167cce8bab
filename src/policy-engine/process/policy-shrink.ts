// The shrink of a policy's that is under way, and the target that stops it: the present size, decided on itself. Pure.
import { decisionTime } from "../../api/decision-time.ts";
import { asksToStay, type Filesystem, type WantedTarget } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { filesystemSizeBytes } from "../../api/filesystem-size.ts";
import { highestEpoch } from "../../api/highest-epoch.ts";
import { parseQuantity } from "../../units/quantity.ts";
import type { FilesystemFacts } from "../facts.ts";
import type { TargetToApply } from "./apply.ts";
import type { Gathered } from "./gather.ts";
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
  const isReplacing = spec.members?.some(
    ({ replaces, state }) => replaces?.decidedAt === target.decidedAt && state !== "Removed",
  );
  return isReplacing === true || filesystemSizeBytes(layout) === parseQuantity(target.from);
}

export function targetToStay(
  { facts, filesystem, layout }: Pick<Gathered, "facts" | "filesystem" | "layout">,
  epoch: number,
): TargetToApply {
  const { sizeBytes } = facts.filesystem;
  return { sizeBytes, fromBytes: sizeBytes, epoch, decidedAt: decisionTime(facts.nowMs, layout, filesystem) };
}
