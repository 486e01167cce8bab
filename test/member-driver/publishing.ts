// NodePublishVolume and NodeUnpublishVolume: a staged volume shown at a pod's path.
import { invalidArgument, Refusal } from "../../src/contracts/csi/refusal.ts";
import type {
  NodePublishVolumeRequest,
  NodePublishVolumeResponse,
  NodeUnpublishVolumeRequest,
  NodeUnpublishVolumeResponse,
} from "../../src/contracts/gen/csi/v1/csi.ts";
import { accessOf } from "./access.ts";
import { bindAt, mountsOfDevice, unmountAt } from "./device-mounts.ts";
import { loopOf } from "./loop.ts";
import type { Switches } from "./switches.ts";
import type { VolumeFiles } from "./volume-files.ts";
import { noVolume } from "./volumes.ts";

export async function publishVolume(
  files: VolumeFiles,
  node: string,
  request: NodePublishVolumeRequest,
  switches: Switches,
): Promise<NodePublishVolumeResponse | Refusal> {
  const { volumeId, targetPath, stagingTargetPath, readonly: readOnly } = request;
  if (volumeId === "" || targetPath === "") return invalidArgument("the volume id or the target path is missing");
  const access = accessOf(request.volumeCapability, switches);
  if (access instanceof Refusal) return access;
  if (files.volume(volumeId) === undefined) return noVolume(volumeId);
  const [claim, device] = [files.claimOf(volumeId), loopOf(volumeId)];
  if (claim?.node !== node || claim.stagingPath !== stagingTargetPath || device === undefined)
    return new Refusal("FAILED_PRECONDITION", `volume ${volumeId} is not staged at "${stagingTargetPath}" of ${node}`);
  const { block } = access;
  if (claim.block !== block)
    return invalidArgument(`volume ${volumeId} is staged as ${claim.block ? "a device" : claim.fsType}`);
  const published = mountsOfDevice(device).filter(({ path }) => path !== claim.stagingPath);
  const present = published.find(({ path }) => path === targetPath);
  if (present !== undefined)
    return present.readOnly === readOnly
      ? {}
      : new Refusal("ALREADY_EXISTS", `volume ${volumeId} is at ${targetPath} with readonly ${present.readOnly}`);
  if (access.singleWriter && published.length > 0)
    return new Refusal(
      "FAILED_PRECONDITION",
      `volume ${volumeId} is published at ${published[0]?.path} to its one writer`,
    );
  await bindAt(block ? device : claim.stagingPath, targetPath, { block, readOnly });
  return {};
}

export async function unpublishVolume(
  files: VolumeFiles,
  { volumeId, targetPath }: NodeUnpublishVolumeRequest,
): Promise<NodeUnpublishVolumeResponse | Refusal> {
  if (volumeId === "" || targetPath === "") return invalidArgument("the volume id or the target path is missing");
  if (files.volume(volumeId) === undefined) return noVolume(volumeId);
  await unmountAt(targetPath);
  return {};
}
