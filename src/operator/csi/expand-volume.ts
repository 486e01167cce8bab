// ControllerExpandVolume: writes the raised request as the layout's target and answers with exactly the request. The
// node's agent grows the filesystem by itself; nothing is left for NodeExpandVolume.
import { FILESYSTEM_LAYOUTS } from "../../api/filesystem-layout.ts";
import { volumeUIDOf } from "../../api/identity.ts";
import type { ControllerExpandVolumeRequest, ControllerExpandVolumeResponse } from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client.ts";
import type { Clock } from "../../process/clock.ts";
import type { LayoutWriter } from "../volume/layout-writer.ts";
import { expansionTarget, refusalOfExpansion } from "./expansion.ts";
import { Refusal } from "./refusal.ts";

export async function expandVolume(
  client: KubeClient,
  layouts: LayoutWriter,
  clock: Clock,
  request: ControllerExpandVolumeRequest,
): Promise<ControllerExpandVolumeResponse | Refusal> {
  const { volumeId, capacityRange } = request;
  if (volumeId === "") return new Refusal("INVALID_ARGUMENT", "the volume id is missing");
  const requestBytes = capacityRange?.requiredBytes ?? 0;
  if (requestBytes <= 0)
    return new Refusal("INVALID_ARGUMENT", `${volumeId}: the capacity range has no required bytes`);
  const layout = volumeUIDOf(volumeId) && (await client.get(FILESYSTEM_LAYOUTS, { name: volumeId }));
  if (!layout) return new Refusal("NOT_FOUND", `there is no volume "${volumeId}"`);
  const refusal = refusalOfExpansion(layout, requestBytes, capacityRange?.limitBytes ?? 0);
  if (refusal !== undefined) return refusal;

  const written = await layouts.update("expand-volume/target", layout, (current) => {
    const target = expansionTarget(current, requestBytes, clock.nowMs());
    return target && { target };
  });
  if (written === undefined) return new Refusal("NOT_FOUND", `${volumeId} was deleted meanwhile`);
  return { capacityBytes: requestBytes, nodeExpansionRequired: false };
}
