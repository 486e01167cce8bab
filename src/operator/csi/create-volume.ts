// CreateVolume: writes down what shall be, on the FilesystemLayout and the Filesystem. A loop volume touches no storage; a lvm volume
// waits for its node to make it, a span for its first member. Repeated after a crash at any line it ends in the same objects and the
// same answer.

import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../api/logical-volume.ts";
import { NODE_STORAGES, type NodeStorage } from "../../api/node-storage.ts";
import type { Driver } from "../../csi/driver.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { CreateVolumeRequest, CreateVolumeResponse, Topology, TopologyRequirement } from "../../gen/csi/v1/csi.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { CSI_NODES, type CSINode, NODES } from "../../kube/resources.ts";
import type { MakingLogicalVolume } from "../lvm/make-logical-volume.ts";
import { tearDownSpan } from "../member/tear-down-span.ts";
import { writeFilesystem } from "../volume/filesystem-writer.ts";
import { isRemoving } from "../volume/layout-facts.ts";
import { dropBlank, readLayout } from "../volume/new-layout.ts";
import { type VolumeRecord, volumeContextOf } from "../volume/volume-record.ts";
import { type Abandoning, abandonLvm } from "./abandon-lvm.ts";
import { type CopySource, readCopySource, refusalOfCopy } from "./copy-source.ts";
import { createLoop, createLvm, nodeTopology } from "./create-local.ts";
import { abandon, type CreatingSpan, createSpan } from "./create-span.ts";
import { refusalOfExisting, refusalOfOtherSource, refusalOfStarted } from "./existing-volume.ts";
import { refusalOfRoom } from "./node-room.ts";
import {
  hasDriver,
  isAccessibleFrom,
  leastUsedNode,
  nodesInPlace,
  requestedNode,
  requestedPlaces,
} from "./placement.ts";
import { removeVolume } from "./remove-volume.ts";
import { claimUIDOf } from "./volume-binding.ts";
import { orderOf, type VolumeOrder } from "./volume-order.ts";

export interface Creating extends CreatingSpan, MakingLogicalVolume, Abandoning {
  readonly driver: Driver;
}

/** ListVolumes answers from the cache: whoever lists after a create or a delete must see it. */
export const CACHE_WAIT_LIMIT_MS = 1000;

interface PlacedOrder extends VolumeOrder {
  readonly copied?: CopySource;
}

/** What an earlier call for the same volume has left. */
interface Found {
  readonly layout: FilesystemLayout | undefined;
  /** Of a lvm volume. */
  readonly logicalVolume: LogicalVolume | undefined;
}

export async function createVolume(
  creating: Creating,
  request: CreateVolumeRequest,
): Promise<CreateVolumeResponse | Refusal> {
  const { client, driver } = creating;
  const asked = orderOf(request, driver);
  if (asked instanceof Refusal) return asked;
  const found = await findVolume(client, asked);
  const refusal =
    (await endRemoval(creating, asked, found)) ??
    (await refusalOfFound(creating, asked, found, request.accessibilityRequirements));
  if (refusal !== undefined) return refusal;
  const isBegun = found.layout !== undefined || found.logicalVolume !== undefined;
  const order = isBegun ? asked : await withSource(creating, asked);
  if (order instanceof Refusal) return order;
  const begunOn = found.layout?.spec.nodeName ?? found.logicalVolume?.spec.nodeName;
  const chosen =
    begunOn === undefined
      ? await chooseNode(client, request, order, driver)
      : { nodeName: begunOn, storage: undefined };
  if (chosen instanceof Refusal) return chosen;

  const claimUID = await claimUIDOf(client, order);
  if (claimUID instanceof Refusal) return (await abandonFor(creating, order, found)) ?? claimUID;
  const claim = { ...order.claim, uid: claimUID ?? order.volumeUID };
  const ofNode = driver.attaches ? undefined : chosen.nodeName;
  const record: VolumeRecord = { ...order, claim, nodeName: ofNode, logicalVolume: undefined };
  // The Filesystem first: where it cannot be written (its namespace is gone) no layout is left without an owner.
  await writeFilesystem(client, record.claim, claimUID !== undefined);
  const places = requestedPlaces(request.accessibilityRequirements);
  const created = await create(creating, order, record, { ...chosen, places }, found.layout);
  if (created instanceof Refusal) return created;
  await creating.watch.untilCached(order.handle, true, CACHE_WAIT_LIMIT_MS);
  return responseOf(created.record, request, order.requestedBytes, created.topologies);
}

async function findVolume(client: KubeClient, { handle, backend }: VolumeOrder): Promise<Found> {
  const layout = await readLayout(client, handle);
  return { layout, logicalVolume: backend === "lvm" ? await client.get(LOGICAL_VOLUMES, { name: handle }) : undefined };
}

/** The order of a copy: where its source is, and at least as large; of an empty volume as it is asked for. */
async function withSource(creating: Creating, order: VolumeOrder): Promise<PlacedOrder | Refusal> {
  if (order.source === undefined) return order;
  const source = await readCopySource(creating, order.source);
  if (source instanceof Refusal) return source;
  const { deviceClass, sizeBytes } = source;
  return (
    refusalOfCopy(source, order) ?? {
      ...order,
      memberBytes: Math.max(order.memberBytes, sizeBytes),
      deviceClass,
      copied: source,
    }
  );
}

/** Begun by a call for a volume that could not be had; nobody else would end it. */
async function endRemoval(
  creating: Creating,
  { handle, backend }: VolumeOrder,
  { layout }: Found,
): Promise<Refusal | undefined> {
  if (layout === undefined || backend === "loop" || !isRemoving(layout)) return undefined;
  if (backend === "lvm") return (await abandonLvm(creating, handle)) ?? askAgain(handle);
  const left = await removeVolume(creating, layout, isRemoving, tearDownSpan);
  return left === undefined ? askAgain(handle) : new Refusal("ABORTED", `${handle}: ${left}; ask again`);
}

function askAgain(handle: string): Refusal {
  return new Refusal("ABORTED", `${handle}: what was left of it has been deleted; ask again`);
}

/** One that was begun on a node that is wanted no more is taken back first, so that there is never more than one. */
async function refusalOfFound(
  creating: Creating,
  order: VolumeOrder,
  { layout, logicalVolume }: Found,
  requirement: TopologyRequirement | undefined,
): Promise<Refusal | undefined> {
  const otherSource = logicalVolume && refusalOfOtherSource(logicalVolume, order);
  if (layout !== undefined) return refusalOfExisting(layout, order, requirement) ?? otherSource;
  if (logicalVolume === undefined || otherSource !== undefined) return otherSource;
  if (!isAccessibleFrom(requirement, logicalVolume.spec.nodeName))
    return (await abandonLvm(creating, order.handle)) ?? askAgain(order.handle);
  return refusalOfStarted(logicalVolume, order);
}

/** The claim is gone: nobody will ever delete what was made for it. */
async function abandonFor(
  creating: Creating,
  { handle, backend }: VolumeOrder,
  { layout }: Found,
): Promise<Refusal | undefined> {
  if (backend === "lvm") {
    const pending = await abandonLvm(creating, handle);
    if (pending !== undefined) return pending;
  }
  if (layout !== undefined && backend === "span") await abandon(creating, layout);
  if (layout === undefined) await dropBlank(creating.client, handle);
  return undefined;
}

interface CreatedVolume {
  readonly record: VolumeRecord;
  readonly topologies: Topology[];
}

async function create(
  creating: Creating,
  order: VolumeOrder,
  record: VolumeRecord,
  { nodeName, storage, places }: ChosenNode & { readonly places: readonly Topology[] },
  existing: FilesystemLayout | undefined,
): Promise<CreatedVolume | Refusal> {
  const { backend, memberBytes, deviceClass, source } = order;
  if (backend === "span") {
    const topologies = await createSpan(creating, { record, existing, memberBytes, selectedNode: nodeName, places });
    return topologies instanceof Refusal ? topologies : { record, topologies };
  }
  const local = { record, nodeName, storage, existing, memberBytes, deviceClass, source };
  const created = await (backend === "lvm" ? createLvm(creating, local) : createLoop(creating, local));
  return created instanceof Refusal ? created : { record: created, topologies: nodeTopology(nodeName) };
}

interface ChosenNode {
  readonly nodeName: string;
  /** As it was chosen by. Undefined: nobody looked, or the node has not reported. */
  readonly storage: NodeStorage | undefined;
}

async function chooseNode(
  client: KubeClient,
  { accessibilityRequirements }: CreateVolumeRequest,
  order: PlacedOrder,
  driver: Driver,
): Promise<ChosenNode | Refusal> {
  const { copied } = order;
  if (copied !== undefined && !isAccessibleFrom(accessibilityRequirements, copied.nodeName))
    return new Refusal(
      "RESOURCE_EXHAUSTED",
      `${order.source} is on node ${copied.nodeName}, and its copies are made there; the request does not allow that node`,
    );
  const asked = copied?.nodeName ?? requestedNode(accessibilityRequirements, driver);
  if (asked instanceof Refusal) return asked;
  const { memberBytes } = order;
  if (asked !== undefined) {
    const storage = await client.get(NODE_STORAGES, { name: asked });
    return refusalOfRoom(asked, storage, order, memberBytes) ?? { nodeName: asked, storage };
  }
  const lists = [client.list(CSI_NODES), client.list(FILESYSTEM_LAYOUTS), client.list(NODE_STORAGES)] as const;
  const [nodes, layouts, storages] = await Promise.all(lists);
  const drivers = nodes.items.filter((node) => hasDriver(node, driver));
  const served = await servedInPlace(client, drivers, accessibilityRequirements);
  if (served instanceof Refusal) return served;
  const storageOf = new Map(storages.items.map((one) => [one.metadata.name, one]));
  const refusals = served.map(({ metadata: { name } }) => refusalOfRoom(name, storageOf.get(name), order, memberBytes));
  const roomy = served.filter((_node, index) => refusals[index] === undefined);
  const full = roomy.length === 0 ? refusals.find((refusal) => refusal !== undefined) : undefined;
  const nodeName = full ?? leastUsedNode(roomy, countByNode(layouts.items), driver);
  return nodeName instanceof Refusal ? nodeName : { nodeName, storage: storageOf.get(nodeName) };
}

async function servedInPlace(
  client: KubeClient,
  drivers: readonly CSINode[],
  requirement: TopologyRequirement | undefined,
): Promise<readonly CSINode[] | Refusal> {
  if (requestedPlaces(requirement).length === 0) return drivers;
  const { items } = await client.list(NODES);
  const labels = new Map(items.map(({ metadata }) => [metadata.name, metadata.labels ?? {}]));
  return nodesInPlace(drivers, (nodeName) => labels.get(nodeName) ?? {}, requirement);
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
  { volumeContentSource }: CreateVolumeRequest,
  requestedBytes: number,
  accessibleTopology: Topology[],
): CreateVolumeResponse {
  return {
    volume: {
      capacityBytes: requestedBytes,
      volumeId: record.handle,
      volumeContext: volumeContextOf(record),
      contentSource: volumeContentSource,
      accessibleTopology,
    },
  };
}
