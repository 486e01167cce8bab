// What a raised request means for a volume: the size that it must at least have from now on. Pure.

import { decisionTime } from "../../api/decision-time.ts";
import type { SizeTarget } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { highestEpoch } from "../../api/highest-epoch.ts";
import { Refusal } from "../../csi/refusal.ts";
import { formatBytes, formatQuantity, parseQuantity } from "../../units/quantity.ts";
import { isRemoving, presentBytes } from "../volume/layout-facts.ts";
import { sizesOfRecords } from "../volume/volume-record.ts";
import { roundUpToBlock } from "./volume-size.ts";

/** Why the request cannot be met; undefined: it can. */
export function refusalOfExpansion(
  layout: FilesystemLayout,
  requestBytes: number,
  limitBytes: number,
): Refusal | undefined {
  const handle = layout.metadata.name;
  if (isRemoving(layout)) return new Refusal("FAILED_PRECONDITION", `${handle} is being deleted`);
  if (limitBytes > 0 && requestBytes > limitBytes)
    return new Refusal(
      "OUT_OF_RANGE",
      `${formatBytes(requestBytes)} is over the limit of ${formatBytes(limitBytes)} in the request`,
    );
  const { maxBytes } = sizesOfRecords(layout.metadata.annotations);
  if (maxBytes !== undefined && requestBytes > maxBytes)
    return new Refusal(
      "OUT_OF_RANGE",
      `${handle}: the request of ${formatBytes(requestBytes)} is over the StorageClass' maxSize of ${formatBytes(maxBytes)}`,
    );
  if (presentBytes(layout) === undefined)
    return new Refusal(
      "UNAVAILABLE",
      `${handle}: its size is not known yet; node ${layout.spec.nodeName} has not reported it`,
    );
  return undefined;
}

/**
 * The target to write, or undefined when what is there or under way is enough already. A present size over the request stays
 * as it is; writing it as a target still ends a shrink that would go under the request.
 */
export function expansionTarget(layout: FilesystemLayout, requestBytes: number, nowMs: number): SizeTarget | undefined {
  const present = presentBytes(layout);
  if (present === undefined || isEnough(layout, present, requestBytes)) return undefined;
  return {
    size: formatQuantity(Math.max(present, roundUpToBlock(requestBytes))),
    from: formatQuantity(present),
    epoch: highestEpoch(layout),
    decidedAt: decisionTime(nowMs, layout),
  };
}

function isEnough({ spec, status }: FilesystemLayout, present: number, requestBytes: number): boolean {
  if (spec.target === undefined) return present >= requestBytes && !status?.operation;
  if (parseQuantity(spec.target.size) < requestBytes) return false;
  const last = status?.lastOperation;
  const ended = last !== undefined && last.decidedAt === spec.target.decidedAt;
  return present >= requestBytes || !ended;
}
