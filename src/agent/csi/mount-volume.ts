// NodeStageVolume and NodePublishVolume: the request is checked whole, by presence, id, paths, capability and binding, before
// anything is done about it.

import { fsidOf, volumeUIDOf } from "../../api/identity.ts";
import { RECORDS } from "../../api/names.ts";
import { type Access, accessOf } from "../../csi/access.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import { handleOf, noVolume } from "../../csi/volume-id.ts";
import type {
  NodePublishVolumeRequest,
  NodePublishVolumeResponse,
  NodeStageVolumeRequest,
  NodeStageVolumeResponse,
} from "../../gen/csi/v1/csi.ts";
import { shownPath } from "../storage/block/raw-device.ts";
import { type VolumeState, volumeModeOf } from "../volumes/volume-state.ts";
import type { CsiNodeParts } from "./csi-node.ts";
import { kubeletPath } from "./kubelet-path.ts";

export async function stageVolume(
  parts: CsiNodeParts,
  request: NodeStageVolumeRequest,
): Promise<NodeStageVolumeResponse | Refusal> {
  if (request.volumeId === "") return invalidArgument("the volume id is missing");
  const stagingPath = kubeletPath(parts.kubeletDirectory, request.stagingTargetPath);
  if (stagingPath instanceof Refusal) return stagingPath;
  const access = accessOf(request.volumeCapability);
  if (access instanceof Refusal) return access;
  const state = await volumeOf(parts, request);
  if (state instanceof Refusal) return state;
  const wrongMode = refusalOfOtherMode(state, access);
  if (wrongMode !== undefined) return wrongMode;
  const { fsType } = state.record;
  if (access.fsType !== "" && access.fsType !== fsType)
    return invalidArgument(
      `volume ${state.handle} is ${fsType}, not ${access.fsType}: the filesystem type is chosen when a claim is made`,
    );
  await parts.staging.stage(state, stagingPath);
  return {};
}

export async function publishVolume(
  parts: CsiNodeParts,
  request: NodePublishVolumeRequest,
): Promise<NodePublishVolumeResponse | Refusal> {
  const { kubeletDirectory, lanes, podMounts, staging } = parts;
  if (request.volumeId === "") return invalidArgument("the volume id is missing");
  const targetPath = kubeletPath(kubeletDirectory, request.targetPath);
  if (targetPath instanceof Refusal) return targetPath;
  const access = accessOf(request.volumeCapability);
  if (access instanceof Refusal) return access;
  const stagingPath = kubeletPath(kubeletDirectory, request.stagingTargetPath);
  if (stagingPath instanceof Refusal) return stagingPath;
  const state = await volumeOf(parts, request);
  if (state instanceof Refusal) return state;
  const wrongMode = refusalOfOtherMode(state, access);
  if (wrongMode !== undefined) return wrongMode;
  const { handle } = state;
  await staging.adopt(state);
  return lanes.run(handle, async () => {
    if (state.mounted?.mountPath !== stagingPath)
      return new Refusal(
        "FAILED_PRECONDITION",
        `volume ${handle} is ${state.mounted === undefined ? "not staged" : `staged at ${state.mounted.mountPath}`}, not at ${stagingPath}`,
      );
    const shown = shownPath(state.mounted);
    const others = podMounts.targetsOf(shown).filter((path) => path !== targetPath);
    if (access.singleWriter && others.length > 0)
      return new Refusal(
        "FAILED_PRECONDITION",
        `volume ${handle} may have one writer (ReadWriteOncePod) and is published at ${others.join(", ")}; end that pod first`,
      );
    await podMounts.publish(shown, targetPath, {
      readOnly: request.readonly || access.readOnly,
      volumeMode: access.volumeMode,
    });
    return {};
  });
}

/** What was made as the one is never used as the other: a device with a pod's data would be mounted, or a filesystem overwritten. */
function refusalOfOtherMode({ handle, record }: VolumeState, { volumeMode }: Access): Refusal | undefined {
  const made = volumeModeOf(record);
  if (made === volumeMode) return undefined;
  return invalidArgument(
    `volume ${handle} was made with volumeMode ${made}, and is asked for with ${volumeMode}: the mode is chosen when a claim is made; ` +
      "raw block volumes are of the backend lvm alone",
  );
}

/** The volume, if the request is meant for it. */
async function volumeOf(
  parts: CsiNodeParts,
  { volumeId, volumeContext }: Pick<NodeStageVolumeRequest, "volumeId" | "volumeContext">,
): Promise<VolumeState | Refusal> {
  const handle = handleOf(volumeId);
  if (handle instanceof Refusal) return handle;
  const state = await parts.findVolume(handle);
  if (state === undefined) return noVolume(handle, `no FilesystemLayout assigns it to node ${parts.nodeName}`);
  return refusalOfContext(state, volumeContext) ?? state;
}

const POD_NAMESPACE = "csi.storage.k8s.io/pod.namespace";
const EPHEMERAL = "csi.storage.k8s.io/ephemeral";

/**
 * PersistentVolumes are written by people too: one that names another's handle must not show its files. Their attributes are
 * compared with the handle, and kubelet's word on the pod's namespace with that of the claim that the volume was made for.
 */
function refusalOfContext(
  { handle, record: { claimRef } }: VolumeState,
  context: Readonly<Record<string, string>>,
): Refusal | undefined {
  if (context[EPHEMERAL] === "true")
    return invalidArgument("inline CSI volumes are not supported; use a generic ephemeral volume (ephemeral:)");
  const volumeUID = volumeUIDOf(handle) ?? "";
  const expected = { [RECORDS.volumeUID]: volumeUID, [RECORDS.fsid]: fsidOf(volumeUID) };
  for (const [key, value] of Object.entries(expected))
    if (context[key] !== undefined && context[key] !== value)
      return invalidArgument(`the PersistentVolume's attribute ${key} does not belong to ${handle}: it was forged`);
  const namespace = context[POD_NAMESPACE];
  if (namespace === undefined || claimRef?.namespace === undefined || namespace === claimRef.namespace)
    return undefined;
  return new Refusal(
    "PERMISSION_DENIED",
    `volume ${handle} was made for claim ${claimRef.namespace}/${claimRef.name}; a pod of namespace ${namespace} may not mount it`,
  );
}
