// CSI Identity: one answer on every socket of the driver.
import {
  type IdentityServer,
  IdentityService,
  type PluginCapability,
  PluginCapability_Service_Type as PluginService,
  PluginCapability_VolumeExpansion_Type as VolumeExpansion,
} from "../../src/contracts/gen/csi/v1/csi.ts";
import type { GrpcService } from "../../src/platform/process/grpc.ts";
import { type DriverParts, rpcMethod } from "./rpc-method.ts";

const VERSION = "1";

export function createIdentity(parts: DriverParts): GrpcService {
  const service = (type: PluginService): PluginCapability => ({ type: { $case: "service", value: { type } } });
  const implementation: IdentityServer = {
    getPluginInfo: rpcMethod(parts, "GetPluginInfo", async () => ({
      name: parts.driverName,
      vendorVersion: VERSION,
      manifest: {},
    })),
    getPluginCapabilities: rpcMethod(parts, "GetPluginCapabilities", async (_request, { topology }) => ({
      capabilities: [
        service(PluginService.CONTROLLER_SERVICE),
        ...(topology === "none" ? [] : [service(PluginService.VOLUME_ACCESSIBILITY_CONSTRAINTS)]),
        { type: { $case: "volumeExpansion", value: { type: VolumeExpansion.ONLINE } } },
      ],
    })),
    probe: rpcMethod(parts, "Probe", async () => ({ ready: true })),
  };
  return { definition: IdentityService, implementation };
}
