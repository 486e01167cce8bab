// CSI Identity of one of our drivers. The operator's and the agent's socket are one plugin and give the same answer: what the driver
// offers.

import type { Driver } from "../../contracts/csi/driver.ts";
import {
  type IdentityServer,
  IdentityService,
  PluginCapability_Service_Type as PluginService,
  PluginCapability_VolumeExpansion_Type as VolumeExpansion,
} from "../../contracts/gen/csi/v1/csi.ts";
import { RELEASE } from "../../contracts/names.ts";
import type { GrpcService } from "../process/grpc.ts";
import { type Serving, unaryMethod } from "./unary-method.ts";

/** `isReady` false: Probe says so, and the sidecars wait. */
export function createIdentity(serving: Serving, driver: Driver, isReady: () => boolean): GrpcService {
  const implementation: IdentityServer = {
    getPluginInfo: unaryMethod(serving, "GetPluginInfo", async () => ({
      name: driver.name,
      vendorVersion: RELEASE,
      manifest: {},
    })),
    getPluginCapabilities: unaryMethod(serving, "GetPluginCapabilities", async () => ({
      capabilities: [
        { type: { $case: "service", value: { type: PluginService.CONTROLLER_SERVICE } } },
        { type: { $case: "service", value: { type: PluginService.VOLUME_ACCESSIBILITY_CONSTRAINTS } } },
        { type: { $case: "volumeExpansion", value: { type: VolumeExpansion.ONLINE } } },
      ],
    })),
    probe: unaryMethod(serving, "Probe", async () => ({ ready: isReady() })),
  };
  return { definition: IdentityService, implementation };
}
