// CSI Controller: which methods there are, and those that are answered from the files in a few lines.
import { invalidArgument, Refusal } from "../../src/contracts/csi/refusal.ts";
import {
  type ControllerServer,
  ControllerService,
  type ListVolumesRequest,
  type ListVolumesResponse,
  ControllerServiceCapability_RPC_Type as Rpc,
  type ValidateVolumeCapabilitiesRequest,
  type ValidateVolumeCapabilitiesResponse,
} from "../../src/contracts/gen/csi/v1/csi.ts";
import type { GrpcService } from "../../src/platform/process/grpc.ts";
import { accessOf } from "./access.ts";
import { publishToNode, unpublishFromNode } from "./attaching.ts";
import { type DriverParts, rpcMethod } from "./rpc-method.ts";
import type { Switches } from "./switches.ts";
import { VOLUME_ID, type VolumeFiles } from "./volume-files.ts";
import { availableBytes, createVolume, deleteVolume, expandVolume, noVolume, statusOf, volumeOf } from "./volumes.ts";

const CAPABILITIES = [
  ...[Rpc.CREATE_DELETE_VOLUME, Rpc.PUBLISH_UNPUBLISH_VOLUME, Rpc.PUBLISH_READONLY, Rpc.EXPAND_VOLUME],
  ...[Rpc.LIST_VOLUMES, Rpc.LIST_VOLUMES_PUBLISHED_NODES, Rpc.GET_VOLUME, Rpc.VOLUME_CONDITION, Rpc.GET_CAPACITY],
  Rpc.SINGLE_NODE_MULTI_WRITER,
];

export function createController(parts: DriverParts): GrpcService {
  const { files } = parts;
  const implementation = {
    createVolume: rpcMethod(parts, "CreateVolume", async (request, switches) => createVolume(files, request, switches)),
    deleteVolume: rpcMethod(parts, "DeleteVolume", async ({ volumeId }) => deleteVolume(files, volumeId)),
    controllerPublishVolume: rpcMethod(parts, "ControllerPublishVolume", async (request, switches) =>
      publishToNode(files, request, switches),
    ),
    controllerUnpublishVolume: rpcMethod(parts, "ControllerUnpublishVolume", ({ volumeId, nodeId }) =>
      unpublishFromNode(files, volumeId, nodeId),
    ),
    validateVolumeCapabilities: rpcMethod(parts, "ValidateVolumeCapabilities", async (request, switches) =>
      validate(files, request, switches),
    ),
    listVolumes: rpcMethod(parts, "ListVolumes", async (request) => list(files, request)),
    getCapacity: rpcMethod(parts, "GetCapacity", async ({ volumeCapabilities }, switches) => ({
      availableCapacity: volumeCapabilities.some((one) => accessOf(one, switches) instanceof Refusal)
        ? 0
        : availableBytes(files, switches),
      maximumVolumeSize: undefined,
      minimumVolumeSize: undefined,
    })),
    controllerGetCapabilities: rpcMethod(parts, "ControllerGetCapabilities", async () => ({
      capabilities: CAPABILITIES.map((type) => ({ type: { $case: "rpc" as const, value: { type } } })),
    })),
    controllerExpandVolume: rpcMethod(parts, "ControllerExpandVolume", async (request, switches) =>
      expandVolume(files, request, switches),
    ),
    controllerGetVolume: rpcMethod(parts, "ControllerGetVolume", async ({ volumeId }) => {
      if (volumeId === "") return invalidArgument("the volume id is missing");
      const volume = files.volume(volumeId);
      return volume === undefined
        ? noVolume(volumeId)
        : { volume: volumeOf(files, volume), status: statusOf(files, volume) };
    }),
  } satisfies Partial<ControllerServer>;
  return { definition: ControllerService, implementation };
}

function validate(
  files: VolumeFiles,
  { volumeId, volumeCapabilities }: ValidateVolumeCapabilitiesRequest,
  switches: Switches,
): ValidateVolumeCapabilitiesResponse | Refusal {
  if (volumeId === "") return invalidArgument("the volume id is missing");
  if (volumeCapabilities.length === 0) return invalidArgument("the volume capabilities are missing");
  if (files.volume(volumeId) === undefined) return noVolume(volumeId);
  const refused = volumeCapabilities.map((one) => accessOf(one, switches)).find((one) => one instanceof Refusal);
  if (refused !== undefined) return { confirmed: undefined, message: refused.message };
  return { confirmed: { volumeContext: {}, volumeCapabilities, parameters: {}, mutableParameters: {} }, message: "" };
}

/** A token is the last id of the page before, so that it outlives that very volume. */
function list(files: VolumeFiles, { maxEntries, startingToken }: ListVolumesRequest): ListVolumesResponse | Refusal {
  if (maxEntries < 0) return invalidArgument(`max_entries is ${maxEntries}; it must be 0 or more`);
  if (startingToken !== "" && !VOLUME_ID.test(startingToken))
    return new Refusal("ABORTED", `"${startingToken}" is no token of a page before; begin again without one`);
  const rest = files.volumes().filter(({ volumeId }) => volumeId > startingToken);
  const page = maxEntries === 0 ? rest : rest.slice(0, maxEntries);
  return {
    entries: page.map((volume) => ({ volume: volumeOf(files, volume), status: statusOf(files, volume) })),
    nextToken: page.length < rest.length ? (page.at(-1)?.volumeId ?? "") : "",
  };
}
