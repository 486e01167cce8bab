// proto.LVService, TopoLVM's: what changes volumes. Only wire: requests in, answers out.
import { Refusal } from "../../csi/refusal.ts";
import { type LogicalVolume, type LVServiceServer, LVServiceService } from "../../gen/topolvm/lvmd.ts";
import type { GrpcService } from "../../process/grpc.ts";
import { createSnapshot } from "../volumes/create-snapshot.ts";
import { createVolume, type MadeVolume } from "../volumes/create-volume.ts";
import type { ReduceTokens } from "../volumes/reduce-tokens.ts";
import { removeVolume } from "../volumes/remove-volume.ts";
import { resizeVolume } from "../volumes/resize-volume.ts";
import type { VolumeHost } from "../volumes/volume-host.ts";
import type { LvmdMethod } from "./lvmd-method.ts";
import { readableRequests } from "./readable-requests.ts";

export function createLVService(method: LvmdMethod, host: VolumeHost, tokens: ReduceTokens): GrpcService {
  const implementation: LVServiceServer = {
    createLv: method("CreateLV", async ({ name, tags, deviceClass, lvcreateOptionClass, sizeBytes }) => {
      const made = await createVolume(host, { name, tags, deviceClass, optionClass: lvcreateOptionClass, sizeBytes });
      return made instanceof Refusal ? made : { volume: shortForm(made) };
    }),
    removeLv: method("RemoveLV", async ({ name, deviceClass }) => (await removeVolume(host, deviceClass, name)) ?? {}),
    resizeLv: method("ResizeLV", async ({ name, deviceClass, sizeBytes }) => {
      const size = await resizeVolume(host, tokens, deviceClass, name, sizeBytes);
      return size instanceof Refusal ? size : { sizeBytes: size };
    }),
    createLvSnapshot: method(
      "CreateLVSnapshot",
      async ({ name, tags, deviceClass, sourceVolume, accessType, sizeBytes }) => {
        const order = { name, tags, deviceClass, source: sourceVolume, access: accessType, sizeBytes };
        const made = await createSnapshot(host, order);
        return made instanceof Refusal ? made : { snapshot: shortForm(made) };
      },
    ),
  };
  return { definition: readableRequests(LVServiceService), implementation };
}

/** What TopoLVM fills in its answers to whoever makes a volume: no path, no attributes, no tags. */
function shortForm({ name, sizeBytes, device }: MadeVolume): LogicalVolume {
  return {
    name,
    sizeBytes,
    devMajor: device?.major ?? 0,
    devMinor: device?.minor ?? 0,
    tags: [],
    path: "",
    attr: "",
  };
}
