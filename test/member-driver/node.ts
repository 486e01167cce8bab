// CSI Node: which methods there are, and those that look at a volume or enlarge it.
import { statfs } from "node:fs/promises";
import { invalidArgument, Refusal } from "../../src/contracts/csi/refusal.ts";
import {
  type NodeExpandVolumeResponse,
  type NodeGetVolumeStatsResponse,
  type NodeServer,
  NodeService,
  NodeServiceCapability_RPC_Type as Rpc,
  VolumeUsage_Unit as Unit,
} from "../../src/contracts/gen/csi/v1/csi.ts";
import type { GrpcService } from "../../src/platform/process/grpc.ts";
import { runProgram } from "../cluster/run-program.ts";
import { mountsOfDevice } from "./device-mounts.ts";
import { deviceBytes, loopOf, refreshLoop } from "./loop.ts";
import { publishVolume, unpublishVolume } from "./publishing.ts";
import { type DriverParts, rpcMethod } from "./rpc-method.ts";
import { stageVolume, unstageVolume } from "./staging.ts";
import { nodeSegments } from "./topology.ts";
import type { VolumeFiles } from "./volume-files.ts";
import { conditionOf, noVolume } from "./volumes.ts";

const CAPABILITIES = [
  ...[Rpc.STAGE_UNSTAGE_VOLUME, Rpc.GET_VOLUME_STATS, Rpc.EXPAND_VOLUME, Rpc.VOLUME_CONDITION],
  Rpc.SINGLE_NODE_MULTI_WRITER,
];

export function createNode(parts: DriverParts, node: string): GrpcService {
  const { driverName, files } = parts;
  const implementation: NodeServer = {
    nodeStageVolume: rpcMethod(parts, "NodeStageVolume", (request, switches) =>
      stageVolume(files, node, request, switches),
    ),
    nodeUnstageVolume: rpcMethod(parts, "NodeUnstageVolume", (request) => unstageVolume(files, node, request)),
    nodePublishVolume: rpcMethod(parts, "NodePublishVolume", (request, switches) =>
      publishVolume(files, node, request, switches),
    ),
    nodeUnpublishVolume: rpcMethod(parts, "NodeUnpublishVolume", (request) => unpublishVolume(files, request)),
    nodeGetVolumeStats: rpcMethod(parts, "NodeGetVolumeStats", ({ volumeId, volumePath }) =>
      statsOf(files, volumeId, volumePath),
    ),
    nodeExpandVolume: rpcMethod(parts, "NodeExpandVolume", ({ volumeId, volumePath }) =>
      expandOnNode(files, node, volumeId, volumePath),
    ),
    nodeGetCapabilities: rpcMethod(parts, "NodeGetCapabilities", async () => ({
      capabilities: CAPABILITIES.map((type) => ({ type: { $case: "rpc" as const, value: { type } } })),
    })),
    nodeGetInfo: rpcMethod(parts, "NodeGetInfo", async (_request, switches) => {
      const segments = nodeSegments(driverName, switches, node);
      return {
        nodeId: node,
        maxVolumesPerNode: switches.maxVolumesPerNode,
        accessibleTopology: segments === undefined ? undefined : { segments: { ...segments } },
      };
    }),
  };
  return { definition: NodeService, implementation };
}

async function statsOf(
  files: VolumeFiles,
  volumeId: string,
  volumePath: string,
): Promise<NodeGetVolumeStatsResponse | Refusal> {
  if (volumeId === "" || volumePath === "") return invalidArgument("the volume id or the volume path is missing");
  if (files.volume(volumeId) === undefined) return noVolume(volumeId);
  const device = loopOf(volumeId);
  const mount = device === undefined ? undefined : mountsOfDevice(device).find(({ path }) => path === volumePath);
  if (device === undefined || mount === undefined)
    return new Refusal("NOT_FOUND", `volume ${volumeId} is not at ${volumePath}`);
  const volumeCondition = conditionOf(files, volumeId);
  if (mount.block)
    return { usage: [{ unit: Unit.BYTES, total: deviceBytes(device), available: 0, used: 0 }], volumeCondition };
  const { bsize, blocks, bfree, bavail, files: inodes, ffree } = await statfs(volumePath);
  const bytes = { total: blocks * bsize, available: bavail * bsize, used: (blocks - bfree) * bsize };
  return {
    usage: [
      { unit: Unit.BYTES, ...bytes },
      { unit: Unit.INODES, total: inodes, available: ffree, used: inodes - ffree },
    ],
    volumeCondition,
  };
}

/** The device becomes as large as the image, and then the filesystem that is mounted from it. */
async function expandOnNode(
  files: VolumeFiles,
  node: string,
  volumeId: string,
  volumePath: string,
): Promise<NodeExpandVolumeResponse | Refusal> {
  if (volumeId === "" || volumePath === "") return invalidArgument("the volume id or the volume path is missing");
  if (files.volume(volumeId) === undefined) return noVolume(volumeId);
  const [claim, device] = [files.claimOf(volumeId), loopOf(volumeId)];
  if (claim?.node !== node || device === undefined)
    return new Refusal("FAILED_PRECONDITION", `volume ${volumeId} is not staged on ${node}`);
  if (files.sizeBytes(volumeId) === undefined)
    return new Refusal("INTERNAL", `the device of volume ${volumeId} is gone`);
  await refreshLoop(device);
  if (!claim.block) await growFilesystem(claim.fsType, device, claim.stagingPath);
  return { capacityBytes: deviceBytes(device) };
}

async function growFilesystem(fsType: string, device: string, path: string): Promise<void> {
  if (fsType === "xfs") await runProgram("xfs_growfs", [path]);
  else if (fsType === "btrfs") await runProgram("btrfs", ["filesystem", "resize", "max", path]);
  else await runProgram("resize2fs", [device]);
}
