// CSI Node of one of our drivers: what kubelet asks of this node, checked here and done by staging and pod mounts. Sizes are
// none of its business: they are driven by the layout alone.
import type { Driver } from "../../csi/driver.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import { type Serving, unaryMethod } from "../../csi/unary-method.ts";
import { handleOf, noVolume } from "../../csi/volume-id.ts";
import {
  type NodeExpandVolumeResponse,
  type NodeServer,
  NodeService,
  NodeServiceCapability_RPC_Type as Rpc,
} from "../../gen/csi/v1/csi.ts";
import type { GrpcService } from "../../process/grpc.ts";
import type { Staging } from "../apply/staging.ts";
import { shownPath } from "../storage/block/raw-device.ts";
import type { VolumeLanes } from "../volumes/volume-lanes.ts";
import type { VolumeState } from "../volumes/volume-state.ts";
import { formerKubeletPath, kubeletPath } from "./kubelet-path.ts";
import { publishVolume, stageVolume } from "./mount-volume.ts";
import type { NodePlace } from "./node-place.ts";
import type { PodMounts } from "./pod-mounts.ts";
import { statsOf } from "./volume-stats.ts";

export interface CsiNodeParts {
  /** Volumes of the other driver are unknown to this one. */
  readonly driver: Driver;
  readonly nodeName: string;
  readonly place: NodePlace;
  readonly kubeletDirectory: string;
  readonly staging: Staging;
  readonly podMounts: PodMounts;
  readonly lanes: VolumeLanes;
  /** The volume if it is this node's, by its layout or by the node's own record; throws when neither can be had. */
  readonly findVolume: (handle: string) => Promise<VolumeState | undefined>;
}

/** VOLUME_CONDITION is of CSI 1.12; later versions keep its number. */
const CAPABILITIES = [
  Rpc.STAGE_UNSTAGE_VOLUME,
  Rpc.GET_VOLUME_STATS,
  Rpc.EXPAND_VOLUME,
  Rpc.VOLUME_CONDITION,
  Rpc.SINGLE_NODE_MULTI_WRITER,
] as const;

export function createCsiNode(serving: Serving, everyone: CsiNodeParts): GrpcService {
  const { nodeName } = everyone;
  const parts = { ...everyone, findVolume: (handle: string) => findOwnVolume(everyone, handle) };
  const implementation: NodeServer = {
    nodeStageVolume: unaryMethod(serving, "NodeStageVolume", (request) => stageVolume(parts, request)),
    nodeUnstageVolume: unaryMethod(serving, "NodeUnstageVolume", ({ volumeId, stagingTargetPath }) =>
      unstage(parts, volumeId, stagingTargetPath),
    ),
    nodePublishVolume: unaryMethod(serving, "NodePublishVolume", (request) => publishVolume(parts, request)),
    nodeUnpublishVolume: unaryMethod(serving, "NodeUnpublishVolume", ({ volumeId, targetPath }) =>
      unpublish(parts, volumeId, targetPath),
    ),
    nodeGetVolumeStats: unaryMethod(serving, "NodeGetVolumeStats", async ({ volumeId, volumePath }) => {
      const state = await volumeAt(parts, volumeId, volumePath);
      return state instanceof Refusal ? state : statsOf(state);
    }),
    nodeExpandVolume: unaryMethod(serving, "NodeExpandVolume", ({ volumeId, volumePath }) =>
      expand(parts, volumeId, volumePath),
    ),
    nodeGetCapabilities: unaryMethod(serving, "NodeGetCapabilities", async () => ({
      capabilities: CAPABILITIES.map((type) => ({ type: { $case: "rpc" as const, value: { type } } })),
    })),
    // 0: nothing of ours is attached, so no number of volumes is too many; members count for their own drivers.
    nodeGetInfo: unaryMethod(serving, "NodeGetInfo", async () => {
      const segments = await parts.place(parts.driver);
      if (segments instanceof Refusal) return segments;
      return { nodeId: nodeName, maxVolumesPerNode: 0, accessibleTopology: { segments } };
    }),
  };
  return { definition: NodeService, implementation };
}

async function findOwnVolume({ driver, findVolume }: CsiNodeParts, handle: string): Promise<VolumeState | undefined> {
  const state = await findVolume(handle);
  return state !== undefined && driver.backends.includes(state.record.backend) ? state : undefined;
}

type Nothing = Record<string, never>;

/** Of a volume that is not there nothing is staged. */
async function unstage(parts: CsiNodeParts, volumeId: string, stagingPath: string): Promise<Nothing | Refusal> {
  const target = leftTarget(parts, volumeId, stagingPath);
  if (target instanceof Refusal) return target;
  const state = await parts.findVolume(target.handle);
  if (state !== undefined) await parts.staging.unstage(state, target.path);
  return {};
}

async function unpublish(parts: CsiNodeParts, volumeId: string, targetPath: string): Promise<Nothing | Refusal> {
  const target = leftTarget(parts, volumeId, targetPath);
  if (target instanceof Refusal) return target;
  await parts.lanes.run(target.handle, () => parts.podMounts.unpublish(target.path));
  return {};
}

function leftTarget(
  { kubeletDirectory }: CsiNodeParts,
  volumeId: string,
  requestedPath: string,
): { readonly handle: string; readonly path: string } | Refusal {
  if (volumeId === "") return invalidArgument("the volume id is missing");
  const path = formerKubeletPath(kubeletDirectory, requestedPath);
  if (path instanceof Refusal) return path;
  const handle = handleOf(volumeId);
  return handle instanceof Refusal ? handle : { handle, path };
}

/**
 * The size follows the layout's target, a raised request included: there is nothing to do. What is answered is the size at
 * this moment; a pod whose filesystem is on its way to the request starts meanwhile.
 */
async function expand(
  parts: CsiNodeParts,
  volumeId: string,
  volumePath: string,
): Promise<NodeExpandVolumeResponse | Refusal> {
  const state = await volumeAt(parts, volumeId, volumePath);
  return state instanceof Refusal ? state : { capacityBytes: state.sizeBytes ?? 0 };
}

/** The volume that is shown at a path: its staging path, or a pod's. */
async function volumeAt(parts: CsiNodeParts, volumeId: string, volumePath: string): Promise<VolumeState | Refusal> {
  if (volumeId === "") return invalidArgument("the volume id is missing");
  if (volumePath === "") return invalidArgument("the volume path is missing");
  const handle = handleOf(volumeId);
  if (handle instanceof Refusal) return handle;
  const state = await parts.findVolume(handle);
  if (state === undefined) return noVolume(handle, `no FilesystemLayout assigns it to node ${parts.nodeName}`);
  await parts.staging.adopt(state);
  const { mounted } = state;
  if (mounted === undefined)
    return new Refusal("NOT_FOUND", `volume ${handle} is not staged on node ${parts.nodeName}`);
  const path = kubeletPath(parts.kubeletDirectory, volumePath);
  if (path instanceof Refusal || !(path === mounted.mountPath || parts.podMounts.shows(shownPath(mounted), path)))
    return new Refusal("NOT_FOUND", `volume ${handle} is not at ${volumePath}`);
  return state;
}
