// NodeStageVolume and NodePublishVolume: the request is checked whole, by presence, id, paths, capability and binding, before anything is
// done about it. A request may name only paths under kubelet's directory, symbolic links resolved, so that none makes a privileged process
// mount over something else on the node. CsiNodeParts is what all calls of kubelet are answered with.

import { existsSync, realpathSync } from "node:fs";
import { dirname, isAbsolute, join, normalize, sep } from "node:path";
import { type Access, accessOf } from "../../contracts/csi/access.ts";
import type { Driver } from "../../contracts/csi/driver.ts";
import { invalidArgument, Refusal } from "../../contracts/csi/refusal.ts";
import type {
  NodePublishVolumeRequest,
  NodePublishVolumeResponse,
  NodeStageVolumeRequest,
  NodeStageVolumeResponse,
} from "../../contracts/gen/csi/v1/csi.ts";
import { fsidOf, handleOf, noVolume, volumeUIDOf } from "../../contracts/identity.ts";
import { RECORDS } from "../../contracts/names.ts";
import { shortened } from "../../contracts/printable.ts";
import type { KeyedQueue } from "../../platform/process/async/keyed-queue.ts";
import type { Staging } from "../apply/staging.ts";
import { shownPath } from "../storage/block/raw-device.ts";
import type { NodeVolume } from "../volumes/node-volume.ts";
import { type NodeVolumeState, volumeModeOf } from "../volumes/volume-state.ts";
import type { NodePlace } from "./kubelet-registration.ts";
import type { PodMounts } from "./pod-mounts.ts";

export interface CsiNodeParts {
  /** Volumes of the other driver are unknown to this one. */
  readonly driver: Driver;
  readonly nodeName: string;
  readonly place: NodePlace;
  readonly kubeletDirectory: string;
  readonly staging: Staging;
  readonly podMounts: PodMounts;
  readonly queues: KeyedQueue;
  /** The volume if it is this node's, by its layout or by the node's own record; throws when neither can be had. */
  readonly findVolume: (handle: string) => Promise<NodeVolume | undefined>;
}

export async function stageVolume(
  parts: CsiNodeParts,
  request: NodeStageVolumeRequest,
): Promise<NodeStageVolumeResponse> {
  if (request.volumeId === "") throw invalidArgument("the volume id is missing");
  const stagingPath = kubeletPath(parts.kubeletDirectory, request.stagingTargetPath);
  const access = accessOf(request.volumeCapability);
  const volume = await volumeOf(parts, request);
  refuseOtherMode(volume.state, access);
  const { fsType } = volume.state.record;
  if (access.fsType !== "" && access.fsType !== fsType)
    throw invalidArgument(
      `volume ${volume.handle} is ${fsType}, not ${access.fsType}: the filesystem type is chosen when a claim is made`,
    );
  await parts.staging.stage(volume, stagingPath);
  return {};
}

export async function publishVolume(
  parts: CsiNodeParts,
  request: NodePublishVolumeRequest,
): Promise<NodePublishVolumeResponse> {
  const { kubeletDirectory, queues, podMounts, staging } = parts;
  if (request.volumeId === "") throw invalidArgument("the volume id is missing");
  const targetPath = kubeletPath(kubeletDirectory, request.targetPath);
  const access = accessOf(request.volumeCapability);
  const stagingPath = kubeletPath(kubeletDirectory, request.stagingTargetPath);
  const volume = await volumeOf(parts, request);
  refuseOtherMode(volume.state, access);
  const { handle } = volume;
  await staging.adopt(volume);
  return queues.run(handle, async () => {
    const mounted = volume.state.mounted?.volume;
    if (mounted?.mountPath !== stagingPath)
      throw new Refusal(
        "FAILED_PRECONDITION",
        `volume ${handle} is ${mounted === undefined ? "not staged" : `staged at ${mounted.mountPath}`}, not at ${stagingPath}`,
      );
    const shown = shownPath(mounted);
    const others = podMounts.targetsOf(shown).filter((path) => path !== targetPath);
    if (access.singleWriter && others.length > 0)
      throw new Refusal(
        "FAILED_PRECONDITION",
        `volume ${handle} may have one writer (ReadWriteOncePod) and is published at ${others.join(", ")}; end that pod first`,
      );
    await podMounts.publish(mounted, targetPath, {
      readOnly: request.readonly || access.readOnly,
      volumeMode: access.volumeMode,
    });
    return {};
  });
}

/** What was made as the one is never used as the other: a device with a pod's data would be mounted, or a filesystem overwritten. */
function refuseOtherMode({ handle, record }: NodeVolumeState, { volumeMode }: Access): void {
  const made = volumeModeOf(record);
  if (made === volumeMode) return;
  throw invalidArgument(
    `volume ${handle} has volumeMode ${made}, and the request has ${volumeMode}: a claim keeps the mode it was made with`,
  );
}

/** The volume, if the request is meant for it. */
async function volumeOf(
  parts: CsiNodeParts,
  { volumeId, volumeContext }: Pick<NodeStageVolumeRequest, "volumeId" | "volumeContext">,
): Promise<NodeVolume> {
  const handle = handleOf(volumeId);
  const volume = await parts.findVolume(handle);
  if (volume === undefined) throw noVolume(handle, `no FilesystemLayout assigns it to node ${parts.nodeName}`);
  refuseContext(volume.state, volumeContext);
  return volume;
}

const POD_NAMESPACE = "csi.storage.k8s.io/pod.namespace";
const EPHEMERAL = "csi.storage.k8s.io/ephemeral";

/**
 * PersistentVolumes are written by people too: one that names another's handle must not show its files. Their attributes are
 * compared with the handle, and kubelet's word on the pod's namespace with that of the claim that the volume was made for.
 */
function refuseContext(
  { handle, record: { claimRef } }: NodeVolumeState,
  context: Readonly<Record<string, string>>,
): void {
  if (context[EPHEMERAL] === "true")
    throw invalidArgument("inline CSI volumes are not supported; use a generic ephemeral volume (ephemeral:)");
  const volumeUID = volumeUIDOf(handle) ?? "";
  const expected = { [RECORDS.volumeUID]: volumeUID, [RECORDS.fsid]: fsidOf(volumeUID) };
  for (const [key, value] of Object.entries(expected))
    if (context[key] !== undefined && context[key] !== value)
      throw invalidArgument(`the PersistentVolume's attribute ${key} does not belong to ${handle}: it was forged`);
  const namespace = context[POD_NAMESPACE];
  if (namespace === undefined || claimRef?.namespace === undefined || namespace === claimRef.namespace) return;
  throw new Refusal(
    "PERMISSION_DENIED",
    `volume ${handle} was made for claim ${claimRef.namespace}/${claimRef.name}; a pod of namespace ${namespace} may not mount it`,
  );
}

/** Of every path; more than the kernel takes. */
const PATH_LENGTH_LIMIT = 4096;

/**
 * Returns the resolved path. Throws a Refusal, INVALID_ARGUMENT, for a path that a request may not name. The parent must exist. The last
 * part is not read: it may be the root of a filesystem that does not answer.
 */
export function kubeletPath(kubeletDirectory: string, path: string): string {
  return underKubelet(kubeletDirectory, path, dirname(path));
}

/** The same for a path that is to be left: its parents may be gone already, and then there is nothing at it. */
export function formerKubeletPath(kubeletDirectory: string, path: string): string {
  let parent = dirname(path);
  while (!existsSync(parent) && parent !== dirname(parent)) parent = dirname(parent);
  return underKubelet(kubeletDirectory, path, parent);
}

/** `known` is the part above the path that exists; below it there are no links. */
function underKubelet(kubeletDirectory: string, path: string, known: string): string {
  if (path === "") throw invalidArgument("the path is missing");
  if (!isAbsolute(path) || path.length > PATH_LENGTH_LIMIT || path.includes("\0") || normalize(path) !== path)
    throw invalidArgument(`path "${shortened(path, PATH_LENGTH_LIMIT)}" is not an absolute, normalized path`);
  const [parent, root] = [resolve(known), resolve(kubeletDirectory)];
  const resolved = join(parent, path.slice(known.length));
  if (!resolved.startsWith(root + sep)) throw invalidArgument(`path ${path} is not under kubelet's directory ${root}`);
  return resolved;
}

function resolve(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    throw invalidArgument(`directory ${path} cannot be used: ${(error as Error).message}`);
  }
}
