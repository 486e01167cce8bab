// GetCapacity: what the nodes themselves have reported as free, on their NodeStorage. Where no node has reported, there is
// no figure, and none is made up.
import type { Labels } from "../../api/label-selector.ts";
import { TOPOLOGY_NODE } from "../../api/names.ts";
import { NODE_STORAGES, type NodeStorage } from "../../api/node-storage.ts";
import type { Driver } from "../../csi/driver.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import type { GetCapacityRequest, GetCapacityResponse } from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { CSI_NODES } from "../../kube/resources.ts";
import { capacityQuestion } from "./capacity-question.ts";
import { freeBytesOf } from "./node-room.ts";
import { hasDriver } from "./placement.ts";
import { largestRequestBytes, MINIMUM_BYTES } from "./volume-size.ts";

/** Of one node's topology, or of all nodes; a volume lies on one node, so the largest figure of any is the largest volume. */
export async function getCapacity(
  client: KubeClient,
  driver: Driver,
  request: GetCapacityRequest,
): Promise<GetCapacityResponse | Refusal> {
  const question = capacityQuestion(request, driver);
  if (question instanceof Refusal) return question;
  const { ofClass, fsTypes, segments } = question;
  const storages = await storagesOf(client, driver, segments);
  if (storages instanceof Refusal) return storages;
  const wanted = { backend: ofClass.backend ?? "loop", deviceClass: ofClass.deviceClass };
  const freeBytes = storages.flatMap((storage) => freeBytesOf(storage, wanted) ?? []);
  if (freeBytes.length === 0)
    return new Refusal("UNAVAILABLE", "no node has reported its free bytes yet (NodeStorage); ask again");
  return {
    availableCapacity: freeBytes.reduce((sum, bytes) => sum + bytes, 0),
    maximumVolumeSize: Math.max(...freeBytes.map((bytes) => largestRequestBytes(bytes, ofClass))),
    minimumVolumeSize: MINIMUM_BYTES[fsTypes[0] ?? ofClass.fsType ?? "btrfs"],
  };
}

/** Of the nodes that have the driver now: what a scrapped node said last counts no more. */
async function storagesOf(client: KubeClient, driver: Driver, segments: Labels): Promise<NodeStorage[] | Refusal> {
  const nodeName = segments[TOPOLOGY_NODE];
  if (nodeName === undefined && Object.keys(segments).length > 0)
    return invalidArgument(`the topology has no segment ${TOPOLOGY_NODE}; it has: ${Object.keys(segments).join(", ")}`);
  const [nodes, storages] = await Promise.all([client.list(CSI_NODES), client.list(NODE_STORAGES)]);
  const served = new Set(nodes.items.filter((node) => hasDriver(node, driver)).map(({ metadata }) => metadata.name));
  return storages.items.filter(
    ({ metadata: { name } }) => served.has(name) && (nodeName === undefined || name === nodeName),
  );
}
