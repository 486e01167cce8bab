// CreateVolume: writes down what shall be, on the FilesystemLayout and the Filesystem. A loop volume touches no storage; a lvm volume
// waits for its node to make it, a span for its first member. Repeated after a crash at any line it ends in the same objects and the
// same answer.
import type { Driver } from "../../../contracts/csi/driver.ts";
import { Refusal } from "../../../contracts/csi/refusal.ts";
import type {
  CreateVolumeRequest,
  CreateVolumeResponse,
  Topology,
  TopologyRequirement,
} from "../../../contracts/gen/csi/v1/csi.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../../contracts/kinds/filesystem-layout.ts";
import { LOGICAL_VOLUMES, type LogicalVolume } from "../../../contracts/kinds/logical-volume.ts";
import { NODE_STORAGES, type NodeStorage } from "../../../contracts/kinds/node-storage.ts";
import { CSI_NODES, type CSINode, NODES } from "../../../contracts/kubernetes/resources.ts";
import type { KubeClient } from "../../../platform/kube/client/client.ts";
import { tearDownSpan } from "../../apply/tear-down-span.ts";
import { dropBlank, readLayout, writeFilesystem } from "../../apply/volume-objects.ts";
import { isRemoving } from "../../decide/layout-facts.ts";
import type { MakingLogicalVolume } from "../../lvm/make-logical-volume.ts";
import { type VolumeRecord, volumeContextOf } from "../../volumes/volume-record.ts";
import { type Abandoning, abandonLvm } from "../remove/remove-local.ts";
import { removeVolume } from "../remove/remove-volume.ts";
import { orderOf, type VolumeOrder } from "../requests/volume-order.ts";
import { claimUIDOf } from "../volume-checks.ts";
import { type CopySource, readCopySource, requireCopyOf } from "./copy-source.ts";
import { createLoop, createLvm, nodeTopology } from "./create-local.ts";
import { abandon, type CreatingSpan, createSpan } from "./create-span.ts";
import { requireSame, requireSameSource, requireSameStart } from "./existing-volume.ts";
import {
  hasDriver,
  isAccessibleFrom,
  leastUsedNode,
  nodesInPlace,
  refusalOfRoom,
  requestedNode,
  requestedPlaces,
} from "./placement.ts";

export interface Creating extends CreatingSpan, MakingLogicalVolume, Abandoning {
  readonly driver: Driver;
}

/** ListVolumes answers from the cache: a client that lists after a create or a delete must see it. */
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

/** Throws Refusal and KubeError. */
export async function createVolume(creating: Creating, request: CreateVolumeRequest): Promise<CreateVolumeResponse> {
  const { client, driver } = creating;
  const asked = orderOf(request, driver);
  const found = await findVolume(client, asked);
  await endRemoval(creating, asked, found);
  await requireSameFound(creating, asked, found, request.accessibilityRequirements);
  const isBegun = found.layout !== undefined || found.logicalVolume !== undefined;
  const order = isBegun ? asked : await withSource(creating, asked);
  const begunOn = found.layout?.spec.nodeName ?? found.logicalVolume?.spec.nodeName;
  const chosen =
    begunOn === undefined
      ? await chooseNode(client, request, order, driver)
      : { nodeName: begunOn, storage: undefined };

  const claimUID = await claimUIDOrAbandon(creating, order, found);
  const claim = { ...order.claim, uid: claimUID ?? order.volumeUID };
  const ofNode = driver.attaches ? undefined : chosen.nodeName;
  const record: VolumeRecord = { ...order, claim, nodeName: ofNode, logicalVolume: undefined };
  // The Filesystem first: where it cannot be written (its namespace is gone) no layout is left without an owner.
  await writeFilesystem(client, record.claim, claimUID !== undefined);
  const places = requestedPlaces(request.accessibilityRequirements);
  const created = await create(creating, order, record, { ...chosen, places }, found.layout);
  await creating.watch.untilCached(order.handle, true, CACHE_WAIT_LIMIT_MS);
  return responseOf(created.record, request, order.requestedBytes, created.topologies);
}

async function findVolume(client: KubeClient, { handle, backend }: VolumeOrder): Promise<Found> {
  const layout = await readLayout(client, handle);
  return { layout, logicalVolume: backend === "lvm" ? await client.get(LOGICAL_VOLUMES, { name: handle }) : undefined };
}

/** The order of a copy: where its source is, and at least as large; of an empty volume as it is asked for. */
async function withSource(creating: Creating, order: VolumeOrder): Promise<PlacedOrder> {
  if (order.source === undefined) return order;
  const source = await readCopySource(creating, order.source);
  requireCopyOf(source, order);
  const { deviceClass, sizeBytes } = source;
  return { ...order, memberBytes: Math.max(order.memberBytes, sizeBytes), deviceClass, copied: source };
}

/** Begun by a call for a volume that could not be had; no other call would end it. Throws Refusal in any case: the next call makes it. */
async function endRemoval(creating: Creating, { handle, backend }: VolumeOrder, { layout }: Found): Promise<void> {
  if (layout === undefined || backend === "loop" || !isRemoving(layout)) return;
  if (backend === "lvm") {
    await abandonLvm(creating, handle);
    throw askAgain(handle);
  }
  const left = await removeVolume(creating, layout, isRemoving, tearDownSpan);
  throw left === undefined ? askAgain(handle) : new Refusal("ABORTED", `${handle}: ${left}; ask again`);
}

function askAgain(handle: string): Refusal {
  return new Refusal("ABORTED", `${handle}: what was left of it has been deleted; ask again`);
}

/** One that was begun on a node that is wanted no more is taken back first, so that there is never more than one. */
async function requireSameFound(
  creating: Creating,
  order: VolumeOrder,
  { layout, logicalVolume }: Found,
  requirement: TopologyRequirement | undefined,
): Promise<void> {
  if (layout !== undefined) requireSame(layout, order, requirement);
  if (logicalVolume !== undefined) requireSameSource(logicalVolume, order);
  if (layout !== undefined || logicalVolume === undefined) return;
  if (!isAccessibleFrom(requirement, logicalVolume.spec.nodeName)) {
    await abandonLvm(creating, order.handle);
    throw askAgain(order.handle);
  }
  requireSameStart(logicalVolume, order);
}

async function claimUIDOrAbandon(creating: Creating, order: VolumeOrder, found: Found): Promise<string | undefined> {
  try {
    return await claimUIDOf(creating.client, order);
  } catch (error) {
    // The claim is gone: no call will ever delete what was made for it. Where the API server has failed it may be there.
    if (error instanceof Refusal) await abandonFor(creating, order, found);
    throw error;
  }
}

/** Throws the Refusal of what still waits for its node. */
async function abandonFor(creating: Creating, { handle, backend }: VolumeOrder, { layout }: Found): Promise<void> {
  if (backend === "lvm") await abandonLvm(creating, handle);
  if (layout !== undefined && backend === "span") await abandon(creating, layout);
  if (layout === undefined) await dropBlank(creating.client, handle);
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
): Promise<CreatedVolume> {
  const { backend, memberBytes, deviceClass, source } = order;
  if (backend === "span") {
    const topologies = await createSpan(creating, { record, existing, memberBytes, selectedNode: nodeName, places });
    return { record, topologies };
  }
  const local = { record, nodeName, storage, existing, memberBytes, deviceClass, source };
  const created = await (backend === "lvm" ? createLvm(creating, local) : createLoop(creating, local));
  return { record: created, topologies: nodeTopology(nodeName) };
}

interface ChosenNode {
  readonly nodeName: string;
  /** The report of the node that the choice was made by. Undefined: it was not read, or the node has not reported. */
  readonly storage: NodeStorage | undefined;
}

async function chooseNode(
  client: KubeClient,
  { accessibilityRequirements }: CreateVolumeRequest,
  order: PlacedOrder,
  driver: Driver,
): Promise<ChosenNode> {
  const { copied } = order;
  if (copied !== undefined && !isAccessibleFrom(accessibilityRequirements, copied.nodeName))
    throw new Refusal(
      "RESOURCE_EXHAUSTED",
      `${order.source} is on node ${copied.nodeName}, and its copies are made there; the request does not allow that node`,
    );
  const asked = copied?.nodeName ?? requestedNode(accessibilityRequirements, driver);
  const { memberBytes } = order;
  if (asked !== undefined) {
    const storage = await client.get(NODE_STORAGES, { name: asked });
    const full = refusalOfRoom(asked, storage, order, memberBytes);
    if (full !== undefined) throw full;
    return { nodeName: asked, storage };
  }
  const lists = [client.list(CSI_NODES), client.list(FILESYSTEM_LAYOUTS), client.list(NODE_STORAGES)] as const;
  const [nodes, layouts, storages] = await Promise.all(lists);
  const drivers = nodes.items.filter((node) => hasDriver(node, driver));
  const served = await servedInPlace(client, drivers, accessibilityRequirements);
  const storageOf = new Map(storages.items.map((one) => [one.metadata.name, one]));
  const refusals = served.map(({ metadata: { name } }) => refusalOfRoom(name, storageOf.get(name), order, memberBytes));
  const roomy = served.filter((_node, index) => refusals[index] === undefined);
  const full = roomy.length === 0 ? refusals.find((refusal) => refusal !== undefined) : undefined;
  if (full !== undefined) throw full;
  const nodeName = leastUsedNode(roomy, countByNode(layouts.items), driver);
  return { nodeName, storage: storageOf.get(nodeName) };
}

async function servedInPlace(
  client: KubeClient,
  drivers: readonly CSINode[],
  requirement: TopologyRequirement | undefined,
): Promise<readonly CSINode[]> {
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
