// ControllerPublishVolume and ControllerUnpublishVolume: to which node a volume is attached. A node that died with a volume
// staged has its loop device taken away, unless something still holds it; then the detach is refused.
import { randomUUID } from "node:crypto";
import { invalidArgument, Refusal } from "../../src/contracts/csi/refusal.ts";
import type {
  ControllerPublishVolumeRequest,
  ControllerPublishVolumeResponse,
  ControllerUnpublishVolumeResponse,
} from "../../src/contracts/gen/csi/v1/csi.ts";
import { accessOf } from "./access.ts";
import { detachLoop } from "./loop.ts";
import type { Switches } from "./switches.ts";
import { canReach } from "./topology.ts";
import type { VolumeFiles } from "./volume-files.ts";
import { noVolume } from "./volumes.ts";

/** What a real driver would tell the node of the device: here, which attachment it has to be. */
export const ATTACHMENT_KEY = "attachment";

export function publishToNode(
  files: VolumeFiles,
  { volumeId, nodeId, volumeCapability, readonly }: ControllerPublishVolumeRequest,
  switches: Switches,
): ControllerPublishVolumeResponse | Refusal {
  if (volumeId === "" || nodeId === "") return invalidArgument("the volume id or the node id is missing");
  const access = accessOf(volumeCapability, switches);
  if (access instanceof Refusal) return access;
  const volume = files.volume(volumeId);
  if (volume === undefined) return noVolume(volumeId);
  const node = files.nodes().find(({ name }) => name === nodeId);
  if (node === undefined) return new Refusal("NOT_FOUND", `the driver does not run on a node "${nodeId}"`);
  if (!canReach(node, volume.segments))
    return new Refusal("FAILED_PRECONDITION", `volume ${volumeId} cannot be reached from ${nodeId}`);
  const present = files.attachment(volumeId);
  if (present === undefined) {
    const attached = files.volumes().filter((one) => files.attachment(one.volumeId)?.node === nodeId).length;
    if (attached >= switches.maxVolumesPerNode)
      return new Refusal("RESOURCE_EXHAUSTED", `${attached} volumes are attached to ${nodeId}, and it takes no more`);
  }
  const held = files.attach(volumeId, { node: nodeId, readOnly: readonly, token: randomUUID() });
  if (held.node !== nodeId) return new Refusal("FAILED_PRECONDITION", `volume ${volumeId} is attached to ${held.node}`);
  if (held.readOnly !== readonly)
    return new Refusal("ALREADY_EXISTS", `volume ${volumeId} is attached with readonly ${held.readOnly}`);
  return { publishContext: { [ATTACHMENT_KEY]: held.token } };
}

/** Without a node id it is detached from wherever it is. */
export async function unpublishFromNode(
  files: VolumeFiles,
  volumeId: string,
  nodeId: string,
): Promise<ControllerUnpublishVolumeResponse | Refusal> {
  if (volumeId === "") return invalidArgument("the volume id is missing");
  const [volume, attachment] = [files.volume(volumeId), files.attachment(volumeId)];
  if (volume === undefined || attachment === undefined) return {};
  if (nodeId !== "" && attachment.node !== nodeId) return {};
  if (files.claimOf(volumeId)?.node === attachment.node) {
    if (!(await detachLoop(volumeId, { withUpper: true })))
      return new Refusal(
        "FAILED_PRECONDITION",
        `volume ${volumeId} is still in use on ${attachment.node}: unstage it first`,
      );
    files.unclaim(volumeId);
  }
  files.detach(volumeId);
  return {};
}
