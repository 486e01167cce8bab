// CSI Identity of the node plugin: who answers on the socket, and whether it is ready. It does nothing else.
import { LOCAL_DRIVER, RELEASE } from "../api/names.ts";
import {
  type IdentityServer,
  IdentityService,
  PluginCapability_Service_Type,
  PluginCapability_VolumeExpansion_Type,
} from "../gen/csi/v1/csi.ts";
import type { GrpcService } from "../process/grpc.ts";
import type { Logger } from "../process/log.ts";
import { unary } from "./csi-error.ts";

export function createCsiIdentity(isReady: () => boolean, log: Logger): GrpcService {
  const implementation: IdentityServer = {
    getPluginInfo: unary("GetPluginInfo", log, async () => ({
      name: LOCAL_DRIVER,
      vendorVersion: RELEASE,
      manifest: {},
    })),
    getPluginCapabilities: unary("GetPluginCapabilities", log, async () => ({
      capabilities: [
        {
          type: {
            $case: "service" as const,
            value: { type: PluginCapability_Service_Type.VOLUME_ACCESSIBILITY_CONSTRAINTS },
          },
        },
        {
          type: {
            $case: "volumeExpansion" as const,
            value: { type: PluginCapability_VolumeExpansion_Type.ONLINE },
          },
        },
      ],
    })),
    probe: unary("Probe", log, async () => ({ ready: isReady() })),
  };
  return { definition: IdentityService, implementation };
}
