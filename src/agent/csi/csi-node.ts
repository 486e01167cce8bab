// CSI Node of one of our drivers: it checks what kubelet asks of this node; staging and pod mounts do the work. Usage and condition come
// from the sampler's last reading, and the agent's errors are answered with the gRPC codes that the CSI specification assigns them. It
// decides no sizes: the layout alone drives them.

import { invalidArgument, Refusal, type RefusalCode } from "../../contracts/csi/refusal.ts";
import {
  type NodeExpandVolumeResponse,
  type NodeGetVolumeStatsResponse,
  type NodeServer,
  NodeService,
  NodeServiceCapability_RPC_Type as Rpc,
  type VolumeUsage,
  VolumeUsage_Unit,
} from "../../contracts/gen/csi/v1/csi.ts";
import { handleOf, noVolume } from "../../contracts/identity.ts";
import type { Reading } from "../../contracts/reading.ts";
import { type Serving, unaryMethod } from "../../platform/csi/unary-method.ts";
import { QueueFullError } from "../../platform/process/async/keyed-queue.ts";
import { waitUntil } from "../../platform/process/async/pause.ts";
import type { GrpcService } from "../../platform/process/grpc.ts";
import { LayoutError } from "../gather/layout-record.ts";
import { shownPath } from "../storage/block/raw-device.ts";
import { StorageError, type StorageErrorCode } from "../storage/storage-error.ts";
import type { NodeVolume } from "../volumes/node-volume.ts";
import { type NodeVolumeState, volumeModeOf } from "../volumes/volume-state.ts";
import { type CsiNodeParts, formerKubeletPath, kubeletPath, publishVolume, stageVolume } from "./mount-volume.ts";

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
    nodeGetVolumeStats: unaryMethod(serving, "NodeGetVolumeStats", async ({ volumeId, volumePath }) =>
      statsOf(await volumeAt(parts, volumeId, volumePath)),
    ),
    nodeExpandVolume: unaryMethod(serving, "NodeExpandVolume", ({ volumeId, volumePath }) =>
      expand(parts, volumeId, volumePath),
    ),
    nodeGetCapabilities: unaryMethod(serving, "NodeGetCapabilities", async () => ({
      capabilities: CAPABILITIES.map((type) => ({ type: { $case: "rpc" as const, value: { type } } })),
    })),
    // 0: nothing of ours is attached, so no number of volumes is too many; members count for their own drivers.
    nodeGetInfo: unaryMethod(serving, "NodeGetInfo", async () => {
      const segments = await parts.place(parts.driver);
      return { nodeId: nodeName, maxVolumesPerNode: 0, accessibleTopology: { segments } };
    }),
  };
  return { definition: NodeService, implementation };
}

async function findOwnVolume({ driver, findVolume }: CsiNodeParts, handle: string): Promise<NodeVolume | undefined> {
  const volume = await findVolume(handle);
  return volume !== undefined && driver.backends.includes(volume.state.record.backend) ? volume : undefined;
}

type Nothing = Record<string, never>;

/** Of a volume that is not there nothing is staged. */
async function unstage(parts: CsiNodeParts, volumeId: string, stagingPath: string): Promise<Nothing> {
  const target = leftTarget(parts, volumeId, stagingPath);
  const volume = await parts.findVolume(target.handle);
  if (volume !== undefined) await parts.staging.unstage(volume, target.path);
  return {};
}

async function unpublish(parts: CsiNodeParts, volumeId: string, targetPath: string): Promise<Nothing> {
  const target = leftTarget(parts, volumeId, targetPath);
  await parts.queues.run(target.handle, () => parts.podMounts.unpublish(target.path));
  return {};
}

function leftTarget(
  { kubeletDirectory }: CsiNodeParts,
  volumeId: string,
  requestedPath: string,
): { readonly handle: string; readonly path: string } {
  if (volumeId === "") throw invalidArgument("the volume id is missing");
  const path = formerKubeletPath(kubeletDirectory, requestedPath);
  return { handle: handleOf(volumeId), path };
}

/**
 * Changes nothing: the size follows the layout's target, which includes a raised request. Answers the size at this moment. A pod can start
 * while its filesystem still grows to the request.
 */
async function expand(parts: CsiNodeParts, volumeId: string, volumePath: string): Promise<NodeExpandVolumeResponse> {
  const { state } = await volumeAt(parts, volumeId, volumePath);
  return { capacityBytes: state.sizeBytes ?? 0 };
}

/** The volume that is shown at a path: its staging path, or a pod's. */
async function volumeAt(parts: CsiNodeParts, volumeId: string, volumePath: string): Promise<NodeVolume> {
  if (volumeId === "") throw invalidArgument("the volume id is missing");
  if (volumePath === "") throw invalidArgument("the volume path is missing");
  const handle = handleOf(volumeId);
  const volume = await parts.findVolume(handle);
  if (volume === undefined) throw noVolume(handle, `no FilesystemLayout assigns it to node ${parts.nodeName}`);
  await parts.staging.adopt(volume);
  const mounted = volume.state.mounted?.volume;
  if (mounted === undefined) throw new Refusal("NOT_FOUND", `volume ${handle} is not staged on node ${parts.nodeName}`);
  const path = resolvedPath(parts, volumePath);
  if (path === undefined || !(path === mounted.mountPath || parts.podMounts.shows(shownPath(mounted), path)))
    throw new Refusal("NOT_FOUND", `volume ${handle} is not at ${volumePath}`);
  return volume;
}

/** Undefined: no request may name it. Of a volume that was found that means no more than that it is not there. */
function resolvedPath({ kubeletDirectory }: CsiNodeParts, path: string): string | undefined {
  try {
    return kubeletPath(kubeletDirectory, path);
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}

/** The sampler comes by a volume that was just staged within milliseconds, or finds that it hangs. */
const FIRST_READING_LIMIT_MS = 5000;
const LOOK_INTERVAL_MS = 10;

/**
 * Never from the filesystem itself: one that hangs must not hang this call. Without usage where the filesystem has never answered. Throws
 * StorageError when it is not known whether it does.
 */
export async function statsOf(volume: NodeVolume): Promise<NodeGetVolumeStatsResponse> {
  if (volumeModeOf(volume.state.record) === "Block") return sizeOf(volume.state);
  const isHung = (): boolean => volume.state.mounted?.hung === true;
  const isKnown = (): boolean => volume.state.reading !== undefined || isHung();
  if (!(await waitUntil(isKnown, FIRST_READING_LIMIT_MS, LOOK_INTERVAL_MS)))
    throw new StorageError(
      "Hung",
      `volume ${volume.handle} has not been read in ${FIRST_READING_LIMIT_MS} ms; see the agent's log and its /healthz`,
    );
  const { reading } = volume.state;
  const hung = isHung();
  return {
    usage: reading === undefined ? [] : usageOf(reading),
    volumeCondition: {
      abnormal: hung,
      message: hung ? "the filesystem does not answer; see dmesg on the node" : "the filesystem answers",
    },
  };
}

/** How much of a raw device is in use is unknown. */
function sizeOf({ sizeBytes = 0 }: NodeVolumeState): NodeGetVolumeStatsResponse {
  const usage = { unit: VolumeUsage_Unit.BYTES, total: sizeBytes, available: 0, used: 0 };
  return { usage: [usage], volumeCondition: { abnormal: false, message: "the device is there" } };
}

/** Inodes only where they are limited. */
function usageOf({ capacityBytes, availableBytes, inodesTotal, inodesUsed }: Reading): VolumeUsage[] {
  const bytes = {
    unit: VolumeUsage_Unit.BYTES,
    total: capacityBytes,
    available: availableBytes,
    used: capacityBytes - availableBytes,
  };
  const inodes = {
    unit: VolumeUsage_Unit.INODES,
    total: inodesTotal,
    available: inodesTotal - inodesUsed,
    used: inodesUsed,
  };
  return inodesTotal === 0 ? [bytes] : [bytes, inodes];
}

const CODE_OF_STORAGE: Readonly<Record<StorageErrorCode, RefusalCode>> = {
  SignatureFound: "FAILED_PRECONDITION",
  AlreadyFormatted: "FAILED_PRECONDITION",
  WrongFilesystem: "FAILED_PRECONDITION",
  MembersMissing: "FAILED_PRECONDITION",
  WaitingForMember: "ABORTED",
  MemberDriverFailed: "INTERNAL",
  DiskFull: "RESOURCE_EXHAUSTED",
  DeviceBusy: "ABORTED",
  ShrinkOutcomeUnknown: "FAILED_PRECONDITION",
  ReadOnly: "FAILED_PRECONDITION",
  Hung: "UNAVAILABLE",
  NotPermitted: "PERMISSION_DENIED",
  CommandFailed: "INTERNAL",
};

/** Undefined: an error that is not the agent's. */
export function refusalOfError(error: unknown): Refusal | undefined {
  if (error instanceof StorageError) return new Refusal(CODE_OF_STORAGE[error.code], error.message);
  if (error instanceof LayoutError) return new Refusal("FAILED_PRECONDITION", error.message);
  if (error instanceof QueueFullError)
    return new Refusal(
      "ABORTED",
      `${error.limit} calls for volume ${error.key} are waiting already; see the agent's log`,
    );
  return undefined;
}
