// ValidateVolumeCapabilities: whether an existing volume can be used in the ways that are asked about. Reads only.
import { FILESYSTEM_LAYOUTS } from "../../api/filesystem-layout.ts";
import { volumeUIDOf } from "../../api/identity.ts";
import type { ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse } from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client.ts";
import { Refusal } from "./refusal.ts";
import { fsTypesOf, refusalOfCapabilities } from "./volume-capabilities.ts";

export async function validateVolume(
  client: KubeClient,
  request: ValidateVolumeCapabilitiesRequest,
): Promise<ValidateVolumeCapabilitiesResponse | Refusal> {
  const { volumeId, volumeCapabilities, volumeContext, parameters, mutableParameters } = request;
  if (volumeId === "") return new Refusal("INVALID_ARGUMENT", "the volume id is missing");
  if (volumeCapabilities.length === 0) return new Refusal("INVALID_ARGUMENT", "no volume capability is given");
  const layout = volumeUIDOf(volumeId) && (await client.get(FILESYSTEM_LAYOUTS, { name: volumeId }));
  if (!layout) return new Refusal("NOT_FOUND", `there is no volume "${volumeId}"`);
  const refusal = refusalOfCapabilities(volumeCapabilities);
  const otherType = fsTypesOf(volumeCapabilities).find((fsType) => fsType !== layout.spec.fsType);
  if (refusal !== undefined) return { confirmed: undefined, message: refusal.message };
  if (otherType !== undefined)
    return { confirmed: undefined, message: `${volumeId} is formatted as ${layout.spec.fsType}, not as ${otherType}` };
  return { confirmed: { volumeContext, volumeCapabilities, parameters, mutableParameters }, message: "" };
}
