// CreateVolume: writes down what shall be, on the FilesystemLayout and the Filesystem. A local volume touches no storage; a span
// waits for its first member. Repeated after a crash at any line it ends in the same objects and the same answer.

import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import { TOPOLOGY_NODE } from "../../api/names.ts";
import { NODE_STORAGES } from "../../api/node-storage.ts";
import type { Driver } from "../../csi/driver.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { CreateVolumeRequest, CreateVolumeResponse, Topology } from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client.ts";
import { CSI_NODES } from "../../kube/resources.ts";
import { tearDownSpan } from "../member/tear-down-span.ts";
import { writeFilesystem } from "../volume/filesystem-writer.ts";
import { isRemoving } from "../volume/layout-facts.ts";
import { loopMember, newLayout } from "../volume/layout-fields.ts";
import type { LayoutWatch } from "../volume/layout-watch.ts";
import { dropBlank, makeLayout, readLayout } from "../volume/new-layout.ts";
import { type VolumeRecord, volumeContextOf } from "../volume/volume-record.ts";
import { abandon, type CreatingSpan, createSpan, madeMeanwhile } from "./create-span.ts";
import { refusalOfExisting } from "./existing-volume.ts";
import { freeBytesOf, refusalOfRoom } from "./node-room.ts";
import { hasDriver, leastUsedNode, requestedNode } from "./placement.ts";
import { removeVolume } from "./remove-volume.ts";
import { claimUIDOf } from "./volume-binding.ts";
import { orderOf, type VolumeOrder } from "./volume-order.ts";

export interface Creating extends CreatingSpan {
  readonly driver: Driver;
  readonly watch: LayoutWatch;
}

/** ListVolumes answers from the cache: whoever lists after a create or a delete must see it. */
export const CACHE_WAIT_LIMIT_MS = 1000;

export async function createVolume(
  creating: Creating,
  request: CreateVolumeRequest,
): Promise<CreateVolumeResponse | Refusal> {
  const { client, driver } = creating;
  const order = orderOf(request, driver);
  if (order instanceof Refusal) return order;
  const existing = await readLayout(client, order.handle);
  if (existing !== undefined && order.backend === "span" && isRemoving(existing)) {
    // Begun by a call for a volume that could not be had; nobody else would end it.
    const left = await removeVolume(creating, existing, isRemoving, tearDownSpan);
    return new Refusal("ABORTED", `${order.handle}: ${left ?? "what was left of it has been deleted"}; ask again`);
  }
  const refusal = existing && refusalOfExisting(existing, order, request.accessibilityRequirements);
  if (refusal !== undefined) return refusal;
  const nodeName = existing?.spec.nodeName ?? (await chooseNode(client, request, order, driver));
  if (nodeName instanceof Refusal) return nodeName;

  const claimUID = await claimUIDOf(client, order);
  if (claimUID instanceof Refusal) {
    if (existing !== undefined && order.backend === "span") await abandon(creating, existing);
    if (existing === undefined) await dropBlank(client, order.handle);
    return claimUID;
  }
  const claim = { ...order.claim, uid: claimUID ?? order.volumeUID };
  const record: VolumeRecord = { ...order, claim, nodeName: driver.attaches ? undefined : nodeName };
  // The Filesystem first: where it cannot be written (its namespace is gone) no layout is left without an owner.
  await writeFilesystem(client, record.claim, claimUID !== undefined);
  const topologies =
    order.backend === "span"
      ? await createSpan(creating, { record, existing, memberBytes: order.memberBytes, selectedNode: nodeName })
      : await createLocal(creating, record, existing, order.memberBytes);
  if (topologies instanceof Refusal) return topologies;
  await creating.watch.untilCached(order.handle, true, CACHE_WAIT_LIMIT_MS);
  return responseOf(record, order.requestedBytes, topologies);
}

async function createLocal(
  { client }: Creating,
  record: VolumeRecord,
  existing: FilesystemLayout | undefined,
  memberBytes: number,
): Promise<Topology[] | Refusal> {
  if (existing === undefined) {
    const layout = newLayout(record, [loopMember(record.handle, memberBytes, "Present")]);
    if ((await makeLayout(client, "create-volume/layout", layout)) === undefined) return madeMeanwhile(record.handle);
  }
  return record.nodeName === undefined ? [] : [{ segments: { [TOPOLOGY_NODE]: record.nodeName } }];
}

async function chooseNode(
  client: KubeClient,
  { accessibilityRequirements }: CreateVolumeRequest,
  { backend, memberBytes }: VolumeOrder,
  driver: Driver,
): Promise<string | Refusal> {
  const asked = requestedNode(accessibilityRequirements, driver);
  if (asked instanceof Refusal) return asked;
  if (asked !== undefined) {
    const storage = await client.get(NODE_STORAGES, { name: asked });
    return refusalOfRoom(asked, freeBytesOf(storage, backend), memberBytes) ?? asked;
  }
  const lists = [client.list(CSI_NODES), client.list(FILESYSTEM_LAYOUTS), client.list(NODE_STORAGES)] as const;
  const [nodes, layouts, storages] = await Promise.all(lists);
  const freeBytes = new Map(storages.items.map((one) => [one.metadata.name, freeBytesOf(one, backend)]));
  const served = nodes.items.filter((node) => hasDriver(node, driver));
  const refusals = served.map(({ metadata: { name } }) => refusalOfRoom(name, freeBytes.get(name), memberBytes));
  const roomy = served.filter((_node, index) => refusals[index] === undefined);
  const full = roomy.length === 0 ? refusals.find((refusal) => refusal !== undefined) : undefined;
  return full ?? leastUsedNode(roomy, countByNode(layouts.items), driver);
}

function countByNode(layouts: readonly FilesystemLayout[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { spec } of layouts) {
    if (spec.nodeName !== undefined) counts.set(spec.nodeName, (counts.get(spec.nodeName) ?? 0) + 1);
  }
  return counts;
}

function responseOf(
  record: VolumeRecord,
  requestedBytes: number,
  accessibleTopology: Topology[],
): CreateVolumeResponse {
  return {
    volume: {
      capacityBytes: requestedBytes,
      volumeId: record.handle,
      volumeContext: volumeContextOf(record),
      contentSource: undefined,
      accessibleTopology,
    },
  };
}
