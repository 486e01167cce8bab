// The shrink of a policy's that is under way, and the target that stops it: the present size, decided on itself. Pure.
import { decisionTime } from "../../api/decision-time.ts";
import { asksToStay, type Filesystem } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { parseQuantity } from "../../units/quantity.ts";
import type { FilesystemFacts } from "../facts.ts";
import type { TargetToApply } from "./apply.ts";
import type { Gathered } from "./gather.ts";
import type { PendingTarget } from "./volume-registry.ts";

/** Undefined: none runs, or it is the operator's own, or it merges members for a pod, which a stop would leave larger than before. */
export function policyShrinkOf(
  { spec: { target } }: Filesystem,
  { status }: FilesystemLayout,
  pending: PendingTarget | undefined,
): FilesystemFacts["policyShrink"] {
  const begun = status?.operation?.kind === "Shrink" ? status.operation.decidedAt : undefined;
  const running =
    begun ?? (pending?.kind === "Shrink" && pending.planned === undefined ? pending.decidedAt : undefined);
  if (target === undefined || running === undefined || target.members !== undefined) return undefined;
  if (target.decidedAt === running)
    return parseQuantity(target.size) < parseQuantity(target.from) ? "Running" : undefined;
  return asksToStay(target) && Date.parse(target.decidedAt) > Date.parse(running) ? "Stopping" : undefined;
}

export function targetToStay(
  { facts, filesystem, layout }: Pick<Gathered, "facts" | "filesystem" | "layout">,
  epoch: number,
): TargetToApply {
  const { sizeBytes } = facts.filesystem;
  return { sizeBytes, fromBytes: sizeBytes, epoch, decidedAt: decisionTime(facts.nowMs, layout, filesystem) };
}
