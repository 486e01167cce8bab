// The CSI Identity and Controller services of local.tidemark.dev, as they stand on the socket. Any replica serves them:
// they only write down what shall be.
import { type sendUnaryData, status } from "@grpc/grpc-js";
import { LOCAL_DRIVER, RELEASE } from "../../api/names.ts";
import {
  type ControllerServer,
  ControllerService,
  PluginCapability_VolumeExpansion_Type as Expansion,
  type IdentityServer,
  IdentityService,
  PluginCapability_Service_Type as PluginService,
  ControllerServiceCapability_RPC_Type as Rpc,
} from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client.ts";
import type { GrpcService } from "../../process/grpc.ts";
import type { LayoutWatch } from "../volume/layout-watch.ts";
import type { LayoutWriter } from "../volume/layout-writer.ts";
import { createVolume } from "./create-volume.ts";
import { deleteVolume, REMOVAL_WAIT_LIMIT_MS } from "./delete-volume.ts";
import { expandVolume } from "./expand-volume.ts";
import { type Serving, unaryHandler } from "./unary-handler.ts";
import { validateVolume } from "./validate-volume.ts";

export interface CsiServicesOptions extends Serving {
  readonly client: KubeClient;
  readonly layouts: LayoutWriter;
  readonly watch: LayoutWatch;
  /** False until the caches are filled: Probe says so, and the sidecars wait. */
  readonly isReady: () => boolean;
}

export function createCsiServices(options: CsiServicesOptions): GrpcService[] {
  return [
    { definition: IdentityService, implementation: identityServer(options) },
    { definition: ControllerService, implementation: controllerServer(options) },
  ];
}

const noVolume = (): undefined => undefined;

function identityServer(options: CsiServicesOptions): IdentityServer {
  return {
    getPluginInfo: unaryHandler(options, "GetPluginInfo", noVolume, async () => ({
      name: LOCAL_DRIVER,
      vendorVersion: RELEASE,
      manifest: {},
    })),
    getPluginCapabilities: unaryHandler(options, "GetPluginCapabilities", noVolume, async () => ({
      capabilities: [
        { type: { $case: "service", value: { type: PluginService.CONTROLLER_SERVICE } } },
        { type: { $case: "service", value: { type: PluginService.VOLUME_ACCESSIBILITY_CONSTRAINTS } } },
        { type: { $case: "volumeExpansion", value: { type: Expansion.ONLINE } } },
      ],
    })),
    probe: unaryHandler(options, "Probe", noVolume, async () => ({ ready: options.isReady() })),
  };
}

const CAPABILITIES = [Rpc.CREATE_DELETE_VOLUME, Rpc.EXPAND_VOLUME];

function controllerServer(options: CsiServicesOptions): ControllerServer {
  const { client, layouts, watch, clock } = options;
  return {
    createVolume: unaryHandler(
      options,
      "CreateVolume",
      ({ name }) => name,
      (request) => createVolume(client, request),
    ),
    deleteVolume: unaryHandler(
      options,
      "DeleteVolume",
      ({ volumeId }) => volumeId,
      ({ volumeId }) => deleteVolume({ client, layouts, watch, waitLimitMs: REMOVAL_WAIT_LIMIT_MS }, volumeId),
    ),
    controllerExpandVolume: unaryHandler(
      options,
      "ControllerExpandVolume",
      ({ volumeId }) => volumeId,
      (request) => expandVolume(client, layouts, clock, request),
    ),
    validateVolumeCapabilities: unaryHandler(options, "ValidateVolumeCapabilities", noVolume, (request) =>
      validateVolume(client, request),
    ),
    controllerGetCapabilities: unaryHandler(options, "ControllerGetCapabilities", noVolume, async () => ({
      capabilities: CAPABILITIES.map((type) => ({ type: { $case: "rpc", value: { type } } })),
    })),
    ...unimplementedMethods(),
  };
}

/** What the capabilities do not offer. */
function unimplementedMethods() {
  return {
    controllerPublishVolume: unimplemented,
    controllerUnpublishVolume: unimplemented,
    listVolumes: unimplemented,
    getCapacity: unimplemented,
    createSnapshot: unimplemented,
    deleteSnapshot: unimplemented,
    listSnapshots: unimplemented,
    getSnapshot: unimplemented,
    controllerGetVolume: unimplemented,
    controllerModifyVolume: unimplemented,
  };
}

function unimplemented<Response>(_call: unknown, callback: sendUnaryData<Response>): void {
  callback({ code: status.UNIMPLEMENTED, details: `${LOCAL_DRIVER} does not offer this method` });
}
