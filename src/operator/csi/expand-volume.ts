// ControllerExpandVolume: writes the raised request as the layout's target and answers with exactly the request. The
// node's agent grows the filesystem by itself; nothing is left for NodeExpandVolume.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import { handleOf, noVolume } from "../../csi/volume-id.ts";
import type { ControllerExpandVolumeRequest, ControllerExpandVolumeResponse } from "../../gen/csi/v1/csi.ts";
import type { Clock } from "../../process/clock.ts";
import { readMemberClass } from "../member/member-class.ts";
import type { Turns } from "../member/turns.ts";
import type { LayoutWriter } from "../volume/layout-writer.ts";
import { type TargetRefusal, targetFields } from "../volume/target-fields.ts";
import { expansionTarget, refusalOfExpansion } from "./expansion.ts";
import { type Binding, refusalOfForeignClaim } from "./volume-binding.ts";

export interface Expanding extends Binding {
  readonly layouts: LayoutWriter;
  readonly turns: Turns;
  readonly clock: Clock;
  /** What a namespace may have of a members' class where no ResourceQuota says it. */
  readonly budgetBytes: number;
}

export async function expandVolume(
  expanding: Expanding,
  { volumeId, capacityRange }: ControllerExpandVolumeRequest,
): Promise<ControllerExpandVolumeResponse | Refusal> {
  const { client } = expanding;
  const handle = handleOf(volumeId);
  if (handle instanceof Refusal) return handle;
  const requestBytes = capacityRange?.requiredBytes ?? 0;
  if (requestBytes <= 0) return invalidArgument(`${handle}: the capacity range has no required bytes`);
  const layout = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
  if (layout === undefined) return noVolume(handle, "it has no FilesystemLayout");
  const refusal =
    refusalOfExpansion(layout, requestBytes, capacityRange?.limitBytes ?? 0) ??
    (await refusalOfForeignClaim(expanding, layout));
  if (refusal !== undefined) return refusal;

  return expanding.turns.take(layout.spec.claimRef?.namespace ?? "", () => expand(expanding, layout, requestBytes));
}

async function expand(
  { client, layouts, clock, budgetBytes }: Expanding,
  layout: FilesystemLayout,
  requestBytes: number,
): Promise<ControllerExpandVolumeResponse | Refusal> {
  const { name: handle } = layout.metadata;
  const memberClass = await readMemberClass(client, layout, budgetBytes, clock.nowMs());
  let held: TargetRefusal | undefined;
  const written = await layouts.update("expand-volume/target", layout, (current) => {
    const target = expansionTarget(current, requestBytes, clock.nowMs());
    const decided = target && targetFields(current, target, memberClass, clock.nowMs());
    held = decided && "refusal" in decided ? decided.refusal : undefined;
    return decided && "fields" in decided ? decided.fields : undefined;
  });
  if (held !== undefined) return new Refusal("RESOURCE_EXHAUSTED", `${handle}: ${held.message}`);
  if (written === undefined) return noVolume(handle, "it was deleted meanwhile");
  return { capacityBytes: requestBytes, nodeExpansionRequired: false };
}
