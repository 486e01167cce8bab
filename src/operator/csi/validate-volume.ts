// ValidateVolumeCapabilities: whether an existing volume can be used in the ways that are asked about. Reads only.
import { FILESYSTEM_LAYOUTS } from "../../api/filesystem-layout.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import { handleOf, noVolume } from "../../csi/volume-id.ts";
import type { ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse } from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { askedUse } from "./volume-capabilities.ts";

export async function validateVolume(
  client: KubeClient,
  request: ValidateVolumeCapabilitiesRequest,
): Promise<ValidateVolumeCapabilitiesResponse | Refusal> {
  const { volumeId, volumeCapabilities, volumeContext, parameters, mutableParameters } = request;
  if (volumeId !== "" && volumeCapabilities.length === 0) return invalidArgument("no volume capability is given");
  const handle = handleOf(volumeId);
  if (handle instanceof Refusal) return handle;
  const layout = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
  if (layout === undefined) return noVolume(handle, "it has no FilesystemLayout");
  const asked = askedUse(volumeCapabilities);
  if (asked instanceof Refusal) return { confirmed: undefined, message: asked.message };
  const { volumeMode = "Filesystem" } = layout.spec;
  if (asked.volumeMode !== volumeMode)
    return {
      confirmed: undefined,
      message: `${handle} was made with volumeMode ${volumeMode}, not ${asked.volumeMode}`,
    };
  const otherType = asked.fsTypes.find((fsType) => fsType !== layout.spec.fsType);
  if (otherType !== undefined)
    return { confirmed: undefined, message: `${handle} is formatted as ${layout.spec.fsType}, not as ${otherType}` };
  return { confirmed: { volumeContext, volumeCapabilities, parameters, mutableParameters }, message: "" };
}
