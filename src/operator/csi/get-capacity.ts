// GetCapacity: what the nodes themselves have reported as free, on their NodeStorage. Where no node has reported, there is
// no figure, and none is made up.

import { TOPOLOGY_NODE } from "../../api/names.ts";
import { NODE_STORAGES, type NodeStorage } from "../../api/node-storage.ts";
import type { Driver } from "../../csi/driver.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import type { GetCapacityRequest, GetCapacityResponse } from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client.ts";
import { CSI_NODES } from "../../kube/resources.ts";
import { freeBytesOf } from "./node-room.ts";
import { hasDriver } from "./placement.ts";
import { fsTypesOf } from "./volume-capabilities.ts";
import { parseClassParameters } from "./volume-parameters.ts";
import { MINIMUM_BYTES } from "./volume-size.ts";

/** Of one node's topology, or of all nodes; a volume lies on one node, so the largest figure of any is the largest volume. */
export async function getCapacity(
  client: KubeClient,
  driver: Driver,
  { volumeCapabilities, parameters, accessibleTopology }: GetCapacityRequest,
): Promise<GetCapacityResponse | Refusal> {
  const ofClass = parseClassParameters(parameters, driver);
  if (ofClass instanceof Refusal) return ofClass;
  const fsTypes = volumeCapabilities.length === 0 ? [] : fsTypesOf(volumeCapabilities);
  if (fsTypes instanceof Refusal) return fsTypes;
  const storages = await storagesOf(client, driver, accessibleTopology?.segments ?? {});
  if (storages instanceof Refusal) return storages;
  const freeBytes = storages.flatMap((storage) => freeBytesOf(storage, ofClass.backend ?? "loop") ?? []);
  if (freeBytes.length === 0)
    return new Refusal("UNAVAILABLE", "no node has reported its free bytes yet (NodeStorage); ask again");
  return {
    availableCapacity: freeBytes.reduce((sum, bytes) => sum + bytes, 0),
    maximumVolumeSize: Math.max(...freeBytes),
    minimumVolumeSize: MINIMUM_BYTES[fsTypes[0] ?? ofClass.fsType ?? "btrfs"],
  };
}

/** Of the nodes that have the driver now: what a scrapped node said last counts no more. */
async function storagesOf(
  client: KubeClient,
  driver: Driver,
  segments: Readonly<Record<string, string>>,
): Promise<NodeStorage[] | Refusal> {
  const nodeName = segments[TOPOLOGY_NODE];
  if (nodeName === undefined && Object.keys(segments).length > 0)
    return invalidArgument(`the topology has no segment ${TOPOLOGY_NODE}; it has: ${Object.keys(segments).join(", ")}`);
  const [nodes, storages] = await Promise.all([client.list(CSI_NODES), client.list(NODE_STORAGES)]);
  const served = new Set(nodes.items.filter((node) => hasDriver(node, driver)).map(({ metadata }) => metadata.name));
  return storages.items.filter(
    ({ metadata: { name } }) => served.has(name) && (nodeName === undefined || name === nodeName),
  );
}
