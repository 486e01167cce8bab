// ControllerExpandVolume: writes the raised request as the layout's target and answers with exactly the request. The
// node's agent grows the filesystem by itself; nothing is left for NodeExpandVolume.
import { invalidArgument, Refusal } from "../../contracts/csi/refusal.ts";
import { decisionTime, highestEpoch } from "../../contracts/formulas/decision-order.ts";
import type { ControllerExpandVolumeRequest, ControllerExpandVolumeResponse } from "../../contracts/gen/csi/v1/csi.ts";
import { handleOf, noVolume } from "../../contracts/identity.ts";
import type { SizeTarget } from "../../contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { formatBytes, formatQuantity, parseQuantity } from "../../contracts/quantities/quantity.ts";
import type { KeyedQueue } from "../../platform/process/async/keyed-queue.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { LayoutWriter } from "../apply/volume-objects.ts";
import { type TargetRefusal, targetFields } from "../decide/decide-layout-write.ts";
import { isRemoving, presentBytes } from "../decide/layout-facts.ts";
import { readMemberClass } from "../gather/member-room.ts";
import { sizesOfRecords } from "../volumes/volume-record.ts";
import { roundUpToBlock } from "./requests/volume-parameters.ts";
import { type Binding, requireOwnClaim } from "./volume-checks.ts";

export interface Expanding extends Binding {
  readonly layouts: LayoutWriter;
  readonly turns: KeyedQueue;
  readonly clock: Clock;
  /** What a namespace may have of a members' class where no ResourceQuota says it. */
  readonly budgetBytes: number;
}

/** Throws Refusal and KubeError. */
export async function expandVolume(
  expanding: Expanding,
  { volumeId, capacityRange }: ControllerExpandVolumeRequest,
): Promise<ControllerExpandVolumeResponse> {
  const { client } = expanding;
  const handle = handleOf(volumeId);
  const requestBytes = capacityRange?.requiredBytes ?? 0;
  if (requestBytes <= 0) throw invalidArgument(`${handle}: the capacity range has no required bytes`);
  const layout = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
  if (layout === undefined) throw noVolume(handle, "it has no FilesystemLayout");
  requireExpandable(layout, requestBytes, capacityRange?.limitBytes ?? 0);
  await requireOwnClaim(expanding, layout);

  return expanding.turns.run(layout.spec.claimRef?.namespace ?? "", () => expand(expanding, layout, requestBytes));
}

async function expand(
  { client, layouts, clock, budgetBytes }: Expanding,
  layout: FilesystemLayout,
  requestBytes: number,
): Promise<ControllerExpandVolumeResponse> {
  const { name: handle } = layout.metadata;
  const memberClass = await readMemberClass(client, layout, budgetBytes, clock.nowMs());
  let held: TargetRefusal | undefined;
  const written = await layouts.update("expand-volume/target", layout, (current) => {
    const target = expansionTarget(current, requestBytes, clock.nowMs());
    const decided = target && targetFields(current, target, memberClass, clock.nowMs());
    held = decided && "refusal" in decided ? decided.refusal : undefined;
    return decided && "fields" in decided ? decided.fields : undefined;
  });
  if (held !== undefined) throw new Refusal("RESOURCE_EXHAUSTED", `${handle}: ${held.message}`);
  if (written === undefined) throw noVolume(handle, "it was deleted concurrently");
  return { capacityBytes: requestBytes, nodeExpansionRequired: false };
}

/** Whether the request can be met. Throws Refusal. */
export function requireExpandable(layout: FilesystemLayout, requestBytes: number, limitBytes: number): void {
  const handle = layout.metadata.name;
  if (isRemoving(layout)) throw new Refusal("FAILED_PRECONDITION", `${handle} is being deleted`);
  if (limitBytes > 0 && requestBytes > limitBytes)
    throw new Refusal(
      "OUT_OF_RANGE",
      `${formatBytes(requestBytes)} is over the limit of ${formatBytes(limitBytes)} in the request`,
    );
  const { maxBytes } = sizesOfRecords(layout.metadata.annotations);
  if (maxBytes !== undefined && requestBytes > maxBytes)
    throw new Refusal(
      "OUT_OF_RANGE",
      `${handle}: the request of ${formatBytes(requestBytes)} is over the StorageClass' maxSize of ${formatBytes(maxBytes)}`,
    );
  if (presentBytes(layout) === undefined)
    throw new Refusal(
      "UNAVAILABLE",
      `${handle}: its size is not known yet; node ${layout.spec.nodeName} has not reported it`,
    );
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
