// The CSI Identity and Controller services of local.tidemark.dev, as they stand on the socket. Any replica serves them:
// they only write down what shall be. Local volumes need no attach, so ControllerPublishVolume is not offered.
import type { handleUnaryCall } from "@grpc/grpc-js";
import { LOCAL_DRIVER } from "../../api/names.ts";
import { createIdentity } from "../../csi/identity.ts";
import { Refusal } from "../../csi/refusal.ts";
import { type Serving, unaryMethod } from "../../csi/unary-method.ts";
import {
  type ControllerServer,
  ControllerService,
  ControllerServiceCapability_RPC_Type as Rpc,
} from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client.ts";
import type { Clock } from "../../process/clock.ts";
import type { GrpcService } from "../../process/grpc.ts";
import type { LayoutWatch } from "../volume/layout-watch.ts";
import type { LayoutWriter } from "../volume/layout-writer.ts";
import type { VolumeCaches } from "../volume/volume-caches.ts";
import { createVolume } from "./create-volume.ts";
import { deleteVolume, REMOVAL_WAIT_LIMIT_MS } from "./delete-volume.ts";
import { expandVolume } from "./expand-volume.ts";
import { getCapacity } from "./get-capacity.ts";
import { listVolumes } from "./list-volumes.ts";
import { createOneAtATime } from "./one-at-a-time.ts";
import { validateVolume } from "./validate-volume.ts";

export interface CsiServicesOptions {
  readonly serving: Serving;
  readonly clock: Clock;
  readonly client: KubeClient;
  readonly caches: Pick<VolumeCaches, "layouts" | "persistentVolumes">;
  readonly layouts: LayoutWriter;
  readonly watch: LayoutWatch;
  /** False until the caches are filled: Probe says so, and the sidecars wait. */
  readonly isReady: () => boolean;
}

export function createCsiServices(options: CsiServicesOptions): GrpcService[] {
  return [
    createIdentity(options.serving, options.isReady),
    { definition: ControllerService, implementation: controllerServer(options) },
  ];
}

const CAPABILITIES = [
  Rpc.CREATE_DELETE_VOLUME,
  Rpc.EXPAND_VOLUME,
  Rpc.LIST_VOLUMES,
  Rpc.GET_CAPACITY,
  Rpc.SINGLE_NODE_MULTI_WRITER,
] as const;

function controllerServer(options: CsiServicesOptions): ControllerServer {
  const { serving, client, caches, layouts, watch, clock } = options;
  const alone = createOneAtATime();
  const deleting = { client, caches, layouts, watch, waitLimitMs: REMOVAL_WAIT_LIMIT_MS };
  const expanding = { client, caches, layouts, clock };
  return {
    createVolume: unaryMethod(serving, "CreateVolume", (request) =>
      alone(request.name, () => createVolume({ client, watch }, request)),
    ),
    deleteVolume: unaryMethod(serving, "DeleteVolume", ({ volumeId }) =>
      alone(volumeId, () => deleteVolume(deleting, volumeId)),
    ),
    controllerExpandVolume: unaryMethod(serving, "ControllerExpandVolume", (request) =>
      alone(request.volumeId, () => expandVolume(expanding, request)),
    ),
    validateVolumeCapabilities: unaryMethod(serving, "ValidateVolumeCapabilities", (request) =>
      validateVolume(client, request),
    ),
    listVolumes: unaryMethod(serving, "ListVolumes", async (request) =>
      options.isReady() ? listVolumes(caches.layouts.store, request) : notReady(),
    ),
    getCapacity: unaryMethod(serving, "GetCapacity", (request) => getCapacity(client, request)),
    controllerGetCapabilities: unaryMethod(serving, "ControllerGetCapabilities", async () => ({
      capabilities: CAPABILITIES.map((type) => ({ type: { $case: "rpc", value: { type } } })),
    })),
    ...notOffered(serving),
  };
}

function notReady(): Refusal {
  return new Refusal("UNAVAILABLE", "the first list from the API server is not complete; try again in a second");
}

const NO_ATTACH = "local volumes are on their node and need no attach";
const NO_SNAPSHOTS = "there are no snapshots in this version";

type NotOffered = Pick<
  ControllerServer,
  | "controllerPublishVolume"
  | "controllerUnpublishVolume"
  | "createSnapshot"
  | "deleteSnapshot"
  | "listSnapshots"
  | "getSnapshot"
  | "controllerGetVolume"
  | "controllerModifyVolume"
>;

/** What the capabilities do not declare. */
function notOffered(serving: Serving): NotOffered {
  const refuse = <Request extends object, Response>(method: string, why: string): handleUnaryCall<Request, Response> =>
    unaryMethod<Request, Response>(
      serving,
      method,
      async () => new Refusal("UNIMPLEMENTED", `${LOCAL_DRIVER}: ${why}`),
    );
  return {
    controllerPublishVolume: refuse("ControllerPublishVolume", NO_ATTACH),
    controllerUnpublishVolume: refuse("ControllerUnpublishVolume", NO_ATTACH),
    createSnapshot: refuse("CreateSnapshot", NO_SNAPSHOTS),
    deleteSnapshot: refuse("DeleteSnapshot", NO_SNAPSHOTS),
    listSnapshots: refuse("ListSnapshots", NO_SNAPSHOTS),
    getSnapshot: refuse("GetSnapshot", NO_SNAPSHOTS),
    controllerGetVolume: refuse("ControllerGetVolume", "a volume's condition is told by its node (NodeGetVolumeStats)"),
    controllerModifyVolume: refuse("ControllerModifyVolume", "VolumeAttributesClasses change nothing of a volume"),
  };
}
