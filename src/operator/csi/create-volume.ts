// CreateVolume: writes down what shall be, on the FilesystemLayout and the Filesystem, and touches no storage. Repeated
// after a crash at any line it ends in the same two objects and the same answer.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import { FIELD_MANAGERS, TOPOLOGY_NODE } from "../../api/names.ts";
import { NODE_STORAGES } from "../../api/node-storage.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { CreateVolumeRequest, CreateVolumeResponse } from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client.ts";
import { CSI_NODES } from "../../kube/resources.ts";
import { writeFilesystem } from "../volume/filesystem-writer.ts";
import { newLayout } from "../volume/layout-fields.ts";
import type { LayoutWatch } from "../volume/layout-watch.ts";
import { type VolumeRecord, volumeContextOf } from "../volume/volume-record.ts";
import { refusalOfExisting } from "./existing-volume.ts";
import { freeBytesOf, refusalOfRoom } from "./node-room.ts";
import { hasDriver, leastUsedNode, requestedNode } from "./placement.ts";
import { claimUIDOf } from "./volume-binding.ts";
import { orderOf, type VolumeOrder } from "./volume-order.ts";

export interface Creating {
  readonly client: KubeClient;
  readonly watch: LayoutWatch;
}

/** ListVolumes answers from the cache: whoever lists after a create or a delete must see it. */
export const CACHE_WAIT_LIMIT_MS = 1000;
const APPLY = { fieldManager: FIELD_MANAGERS.operator, force: true } as const;

export async function createVolume(
  { client, watch }: Creating,
  request: CreateVolumeRequest,
): Promise<CreateVolumeResponse | Refusal> {
  const order = orderOf(request);
  if (order instanceof Refusal) return order;
  const existing = await client.get(FILESYSTEM_LAYOUTS, { name: order.handle });
  const refusal = existing && refusalOfExisting(existing, order, request.accessibilityRequirements);
  if (refusal !== undefined) return refusal;
  const nodeName = existing?.spec.nodeName ?? (await chooseNode(client, request, order));
  if (nodeName instanceof Refusal) return nodeName;

  const claimUID = await claimUIDOf(client, order);
  if (claimUID instanceof Refusal) return claimUID;
  const record: VolumeRecord = { ...order, nodeName, claim: { ...order.claim, uid: claimUID ?? order.volumeUID } };
  // The Filesystem first: where it cannot be written (its namespace is gone) no layout is left without an owner.
  await writeFilesystem(client, record.claim, claimUID !== undefined);
  if (existing === undefined) {
    const layout = newLayout(record, order.memberBytes, "Present");
    await client.apply("create-volume/layout", FILESYSTEM_LAYOUTS, layout, APPLY);
    await watch.untilCached(order.handle, true, CACHE_WAIT_LIMIT_MS);
  }
  return responseOf(record, order.requestedBytes);
}

async function chooseNode(
  client: KubeClient,
  { accessibilityRequirements }: CreateVolumeRequest,
  { backend, memberBytes }: VolumeOrder,
): Promise<string | Refusal> {
  const asked = requestedNode(accessibilityRequirements);
  if (asked instanceof Refusal) return asked;
  if (asked !== undefined) {
    const storage = await client.get(NODE_STORAGES, { name: asked });
    return refusalOfRoom(asked, freeBytesOf(storage, backend), memberBytes) ?? asked;
  }
  const lists = [client.list(CSI_NODES), client.list(FILESYSTEM_LAYOUTS), client.list(NODE_STORAGES)] as const;
  const [nodes, layouts, storages] = await Promise.all(lists);
  const freeBytes = new Map(storages.items.map((one) => [one.metadata.name, freeBytesOf(one, backend)]));
  const served = nodes.items.filter(hasDriver);
  const refusals = served.map(({ metadata: { name } }) => refusalOfRoom(name, freeBytes.get(name), memberBytes));
  const roomy = served.filter((_node, index) => refusals[index] === undefined);
  const full = roomy.length === 0 ? refusals.find((refusal) => refusal !== undefined) : undefined;
  return full ?? leastUsedNode(roomy, countByNode(layouts.items));
}

function countByNode(layouts: readonly FilesystemLayout[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { spec } of layouts) {
    if (spec.nodeName !== undefined) counts.set(spec.nodeName, (counts.get(spec.nodeName) ?? 0) + 1);
  }
  return counts;
}

function responseOf(record: VolumeRecord, requestedBytes: number): CreateVolumeResponse {
  return {
    volume: {
      capacityBytes: requestedBytes,
      volumeId: record.handle,
      volumeContext: volumeContextOf(record),
      contentSource: undefined,
      accessibleTopology: [{ segments: { [TOPOLOGY_NODE]: record.nodeName } }],
    },
  };
}
