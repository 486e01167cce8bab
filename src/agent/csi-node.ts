// CSI Node of the local driver: what kubelet asks of this node. It checks requests and answers them; staging does the work,
// and sizes are driven by the layout alone.
import { status } from "@grpc/grpc-js";
import { volumeUIDOf } from "../api/identity.ts";
import { TOPOLOGY_NODE } from "../api/names.ts";
import {
  type NodeGetVolumeStatsResponse,
  type NodePublishVolumeRequest,
  type NodeServer,
  NodeService,
  type NodeStageVolumeRequest,
  NodeServiceCapability_RPC_Type as Rpc,
  VolumeUsage_Unit,
} from "../gen/csi/v1/csi.ts";
import type { GrpcService } from "../process/grpc.ts";
import type { Logger } from "../process/log.ts";
import { accessOf } from "./csi-capability.ts";
import { CsiError, unary } from "./csi-error.ts";
import { kubeletPath } from "./kubelet-path.ts";
import type { PodMounts } from "./pod-mounts.ts";
import type { Staging } from "./staging.ts";
import type { VolumeLanes } from "./volume-lanes.ts";
import type { VolumeState } from "./volume-state.ts";

export interface CsiNodeParts {
  readonly nodeName: string;
  readonly kubeletDirectory: string;
  readonly staging: Staging;
  readonly podMounts: PodMounts;
  readonly lanes: VolumeLanes;
  /** The volume if it is this node's, by its layout or by the node's own record; throws when neither can be had. */
  readonly findVolume: (handle: string) => Promise<VolumeState | undefined>;
  readonly log: Logger;
}

const CAPABILITIES = [
  Rpc.STAGE_UNSTAGE_VOLUME,
  Rpc.GET_VOLUME_STATS,
  Rpc.EXPAND_VOLUME,
  Rpc.VOLUME_CONDITION,
  Rpc.SINGLE_NODE_MULTI_WRITER,
] as const;

export function createCsiNode(parts: CsiNodeParts): GrpcService {
  const { nodeName, kubeletDirectory, staging, podMounts, lanes, log } = parts;
  const pathOf = (path: string): string => kubeletPath(kubeletDirectory, path);
  const implementation: NodeServer = {
    nodeStageVolume: unary("NodeStageVolume", log, async (request) => {
      await stage(parts, request);
      return {};
    }),
    nodeUnstageVolume: unary("NodeUnstageVolume", log, async ({ volumeId, stagingTargetPath }) => {
      const path = pathOf(stagingTargetPath);
      const state = await parts.findVolume(strictHandle(volumeId));
      if (state !== undefined) await staging.unstage(state, path);
      return {};
    }),
    nodePublishVolume: unary("NodePublishVolume", log, async (request) => {
      await publish(parts, request);
      return {};
    }),
    nodeUnpublishVolume: unary("NodeUnpublishVolume", log, async ({ volumeId, targetPath }) => {
      const path = pathOf(targetPath);
      await lanes.run(strictHandle(volumeId), () => podMounts.unpublish(path));
      return {};
    }),
    nodeGetVolumeStats: unary("NodeGetVolumeStats", log, async ({ volumeId }) =>
      statsOf(await mountedVolume(parts, volumeId)),
    ),
    // The size follows the layout's target, a raised request included: there is nothing to do here.
    nodeExpandVolume: unary("NodeExpandVolume", log, async ({ volumeId }) => ({
      capacityBytes: (await mountedVolume(parts, volumeId)).sizeBytes ?? 0,
    })),
    nodeGetCapabilities: unary("NodeGetCapabilities", log, async () => ({
      capabilities: CAPABILITIES.map((type) => ({ type: { $case: "rpc" as const, value: { type } } })),
    })),
    nodeGetInfo: unary("NodeGetInfo", log, async () => ({
      nodeId: nodeName,
      maxVolumesPerNode: 0,
      accessibleTopology: { segments: { [TOPOLOGY_NODE]: nodeName } },
    })),
  };
  return { definition: NodeService, implementation };
}

async function stage(parts: CsiNodeParts, request: NodeStageVolumeRequest): Promise<void> {
  const handle = strictHandle(request.volumeId);
  const stagingPath = kubeletPath(parts.kubeletDirectory, request.stagingTargetPath);
  const { fsType } = accessOf(request.volumeCapability, handle);
  const state = await knownVolume(parts, handle);
  if (fsType !== "" && fsType !== state.record.fsType)
    throw new CsiError(
      status.INVALID_ARGUMENT,
      `volume ${handle} is ${state.record.fsType}, not ${fsType}: the filesystem type is chosen when a claim is made`,
    );
  await parts.staging.stage(state, stagingPath);
}

async function publish(parts: CsiNodeParts, request: NodePublishVolumeRequest): Promise<void> {
  const handle = strictHandle(request.volumeId);
  const stagingPath = kubeletPath(parts.kubeletDirectory, request.stagingTargetPath);
  const targetPath = kubeletPath(parts.kubeletDirectory, request.targetPath);
  const access = accessOf(request.volumeCapability, handle);
  const { mounted } = await mountedVolume(parts, handle);
  if (mounted?.mountPath !== stagingPath)
    throw new CsiError(
      status.FAILED_PRECONDITION,
      `volume ${handle} is staged at ${mounted?.mountPath}, not at ${stagingPath}`,
    );
  await parts.lanes.run(handle, () =>
    parts.podMounts.publish(stagingPath, targetPath, request.readonly || access.readOnly),
  );
}

async function knownVolume(parts: CsiNodeParts, handle: string): Promise<VolumeState> {
  const state = await parts.findVolume(handle);
  if (state === undefined)
    throw new CsiError(
      status.NOT_FOUND,
      `volume ${handle} is not one of node ${parts.nodeName}: no FilesystemLayout assigns it`,
    );
  return state;
}

async function mountedVolume(parts: CsiNodeParts, volumeId: string): Promise<VolumeState> {
  const state = await knownVolume(parts, strictHandle(volumeId));
  await parts.staging.adopt(state);
  if (state.mounted === undefined)
    throw new CsiError(status.FAILED_PRECONDITION, `volume ${volumeId} is not staged on node ${parts.nodeName}`);
  return state;
}

function strictHandle(volumeId: string): string {
  if (volumeUIDOf(volumeId) === undefined)
    throw new CsiError(status.INVALID_ARGUMENT, `"${volumeId}" is not a volume handle of Tidemark (fs-UUID)`);
  return volumeId;
}

/** From the last reading, never from the filesystem itself: one that hangs must not hang this call. */
function statsOf({ handle, reading, hung }: VolumeState): NodeGetVolumeStatsResponse {
  if (reading === undefined)
    throw new CsiError(status.UNAVAILABLE, `volume ${handle} has not been sampled yet; try again in a second`);
  const { capacityBytes, availableBytes, inodesTotal, inodesUsed } = reading;
  const used = capacityBytes - availableBytes;
  return {
    usage: [
      { unit: VolumeUsage_Unit.BYTES, total: capacityBytes, available: availableBytes, used },
      ...(inodesTotal === 0
        ? []
        : [
            {
              unit: VolumeUsage_Unit.INODES,
              total: inodesTotal,
              available: inodesTotal - inodesUsed,
              used: inodesUsed,
            },
          ]),
    ],
    volumeCondition: {
      abnormal: hung,
      message: hung ? "the filesystem does not answer; see dmesg on the node" : "the filesystem answers",
    },
  };
}
