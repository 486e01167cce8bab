// CSI calls that change nothing: ListVolumes, in the order of handles and in pages, whose token is the last handle of the page before, so
// that it outlives that very volume and any restart; ValidateVolumeCapabilities; and GetCapacity, from what the nodes have reported as
// free on their NodeStorage. Where no node has reported, there is no figure, and none is made up.

import { requireMode } from "../../contracts/csi/access.ts";
import type { Driver } from "../../contracts/csi/driver.ts";
import { invalidArgument, Refusal } from "../../contracts/csi/refusal.ts";
import type {
  GetCapacityRequest,
  GetCapacityResponse,
  ListVolumesRequest,
  ListVolumesResponse,
  ListVolumesResponse_Entry,
  ValidateVolumeCapabilitiesRequest,
  ValidateVolumeCapabilitiesResponse,
  VolumeCapability,
} from "../../contracts/gen/csi/v1/csi.ts";
import { handleOf, noVolume, shownVolumeId, volumeUIDOf } from "../../contracts/identity.ts";
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import { NODE_STORAGES, type NodeStorage } from "../../contracts/kinds/node-storage.ts";
import {
  CSI_NODES,
  CSI_STORAGE_CAPACITIES,
  type CSIStorageCapacity,
  NODES,
  STORAGE_CLASSES,
} from "../../contracts/kubernetes/resources.ts";
import { TOPOLOGY_NODE } from "../../contracts/names.ts";
import { parseQuantity } from "../../contracts/quantities/quantity.ts";
import { type Labels, matchesSelector } from "../../contracts/schema/label-selector.ts";
import type { ReadableStore } from "../../platform/kube/cache/store.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { presentBytes } from "../decide/layout-facts.ts";
import { freeBytesOf, hasDriver } from "./create/placement.ts";
import { type AskedUse, askedUse } from "./requests/volume-order.ts";
import {
  largestRequestBytes,
  MINIMUM_BYTES,
  parseClassParameters,
  parseMemberParameters,
} from "./requests/volume-parameters.ts";

/** About 250 bytes each: a page stays far below gRPC's 4 MiB. */
const PAGE_LIMIT = 5000;

/** Throws Refusal. */
export function listVolumes(
  layouts: Pick<ReadableStore<FilesystemLayout>, "list">,
  driver: Driver,
  { maxEntries, startingToken }: ListVolumesRequest,
): ListVolumesResponse {
  if (maxEntries < 0) throw invalidArgument(`max_entries is ${maxEntries}; it must be 0 or more`);
  if (startingToken !== "" && volumeUIDOf(startingToken) === undefined)
    throw new Refusal(
      "ABORTED",
      `"${shownVolumeId(startingToken)}" is not a token of an earlier page; start again without one`,
    );
  const rest = layouts
    .list()
    .filter(
      ({ metadata, spec }) => metadata.name > startingToken && driver.backends.some((one) => one === spec.backend),
    )
    .sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  const page = rest.slice(0, maxEntries === 0 ? PAGE_LIMIT : Math.min(maxEntries, PAGE_LIMIT));
  const nextToken = page.length < rest.length ? (page.at(-1)?.metadata.name ?? "") : "";
  return { entries: page.map(entryOf), nextToken };
}

/** The size is the present one; CSI's 0 says that it is not known. */
function entryOf(layout: FilesystemLayout): ListVolumesResponse_Entry {
  const { nodeName, backend } = layout.spec;
  // A span moves: the node that has it now says nothing of where it can be used.
  const isBoundToNode = nodeName !== undefined && backend !== "span";
  return {
    volume: {
      volumeId: layout.metadata.name,
      capacityBytes: presentBytes(layout) ?? 0,
      volumeContext: {},
      contentSource: undefined,
      accessibleTopology: isBoundToNode ? [{ segments: { [TOPOLOGY_NODE]: nodeName } }] : [],
    },
    status: undefined,
  };
}

/** Throws Refusal and KubeError. */
export async function validateVolume(
  client: KubeClient,
  request: ValidateVolumeCapabilitiesRequest,
): Promise<ValidateVolumeCapabilitiesResponse> {
  const { volumeId, volumeCapabilities, volumeContext, parameters, mutableParameters } = request;
  if (volumeId !== "" && volumeCapabilities.length === 0) throw invalidArgument("no volume capability is given");
  const handle = handleOf(volumeId);
  const layout = await client.get(FILESYSTEM_LAYOUTS, { name: handle });
  if (layout === undefined) throw noVolume(handle, "it has no FilesystemLayout");
  const message = whyUnfit(layout, volumeCapabilities);
  if (message !== undefined) return { confirmed: undefined, message };
  return { confirmed: { volumeContext, volumeCapabilities, parameters, mutableParameters }, message: "" };
}

function whyUnfit(
  { metadata: { name: handle }, spec }: FilesystemLayout,
  volumeCapabilities: readonly VolumeCapability[],
): string | undefined {
  try {
    const asked = askedUse(volumeCapabilities);
    const { volumeMode = "Filesystem" } = spec;
    if (asked.volumeMode !== volumeMode)
      return `${handle} was made with volumeMode ${volumeMode}, not ${asked.volumeMode}`;
    const otherType = asked.fsTypes.find((fsType) => fsType !== spec.fsType);
    return otherType && `${handle} is formatted as ${spec.fsType}, not as ${otherType}`;
  } catch (error) {
    // A use that no volume has is what was asked about: CSI wants that in the answer.
    if (error instanceof Refusal) return error.message;
    throw error;
  }
}

/**
 * Of one node's topology, or of all nodes; a volume lies on one node, so the largest figure of any is the largest volume. Throws Refusal
 * and KubeError.
 */
export async function getCapacity(
  client: KubeClient,
  driver: Driver,
  request: GetCapacityRequest,
): Promise<GetCapacityResponse> {
  const { ofClass, fsTypes, segments } = capacityQuestion(request, driver);
  const storages = await storagesOf(client, driver, segments);
  const wanted = { backend: ofClass.backend ?? "loop", deviceClass: ofClass.deviceClass };
  const freeBytes = storages.flatMap((storage) => freeBytesOf(storage, wanted) ?? []);
  if (freeBytes.length === 0)
    throw new Refusal("UNAVAILABLE", "no node has reported its free bytes yet (NodeStorage); ask again");
  return {
    availableCapacity: freeBytes.reduce((sum, bytes) => sum + bytes, 0),
    maximumVolumeSize: Math.max(...freeBytes.map((bytes) => largestRequestBytes(bytes, ofClass))),
    minimumVolumeSize: MINIMUM_BYTES[fsTypes[0] ?? ofClass.fsType ?? "btrfs"],
  };
}

/** Of the nodes that have the driver now: what a scrapped node said last counts no more. */
async function storagesOf(client: KubeClient, driver: Driver, segments: Labels): Promise<NodeStorage[]> {
  const nodeName = segments[TOPOLOGY_NODE];
  if (nodeName === undefined && Object.keys(segments).length > 0)
    throw invalidArgument(`the topology has no segment ${TOPOLOGY_NODE}; it has: ${Object.keys(segments).join(", ")}`);
  const [nodes, storages] = await Promise.all([client.list(CSI_NODES), client.list(NODE_STORAGES)]);
  const served = new Set(nodes.items.filter((node) => hasDriver(node, driver)).map(({ metadata }) => metadata.name));
  return storages.items.filter(
    ({ metadata: { name } }) => served.has(name) && (nodeName === undefined || name === nodeName),
  );
}

/**
 * Of spans: what the driver of the members' class publishes (CSIStorageCapacity). Where it publishes nothing only that driver knows, and no
 * figure is made up. The largest volume is the largest member: a span begins with one. Of the asked topology, or everywhere. Throws Refusal.
 */
export async function getSpanCapacity(
  client: KubeClient,
  driver: Driver,
  request: GetCapacityRequest,
): Promise<GetCapacityResponse> {
  const { segments } = capacityQuestion(request, driver);
  // Of no class no volume can be made.
  if (Object.keys(request.parameters).length === 0) return answer([]);
  const { className } = parseMemberParameters(request.parameters);
  const published = await publishedFor(client, className);
  const labels = await labelsAt(client, segments);
  return answer(
    published.filter(
      ({ nodeTopology }) => nodeTopology !== undefined && (!labels || matchesSelector(nodeTopology, labels)),
    ),
  );
}

function answer(published: readonly CSIStorageCapacity[]): GetCapacityResponse {
  const capacities = published.map(({ capacity }) => parseQuantity(capacity ?? "0"));
  const largest = published.map(({ capacity, maximumVolumeSize }) =>
    parseQuantity(maximumVolumeSize ?? capacity ?? "0"),
  );
  return {
    availableCapacity: capacities.reduce((sum, bytes) => sum + bytes, 0),
    maximumVolumeSize: Math.max(0, ...largest),
    minimumVolumeSize: MINIMUM_BYTES.btrfs,
  };
}

async function publishedFor(client: KubeClient, className: string): Promise<CSIStorageCapacity[]> {
  const storageClass = await client.get(STORAGE_CLASSES, { name: className });
  if (storageClass === undefined)
    throw new Refusal("INVALID_ARGUMENT", `parameter memberStorageClassName: there is no StorageClass "${className}"`);
  const all = (await client.list(CSI_STORAGE_CAPACITIES)).items;
  const own = all.filter(({ storageClassName }) => storageClassName === className);
  if (own.length > 0) return own;
  throw new Refusal(
    "UNAVAILABLE",
    `${storageClass.provisioner} publishes no CSIStorageCapacity of class ${className}: what it still has only it knows`,
  );
}

/** Undefined: anywhere. A node is known by its labels. */
async function labelsAt(client: KubeClient, segments: Labels): Promise<Labels | undefined> {
  if (Object.keys(segments).length === 0) return undefined;
  const nodeName = segments[TOPOLOGY_NODE];
  const node = nodeName === undefined ? undefined : await client.get(NODES, { name: nodeName });
  return { ...node?.metadata.labels, ...segments };
}

const ANY_USE: AskedUse = { volumeMode: "Filesystem", fsTypes: [] };

/** What is asked: of which class and filesystem types, and where. `segments`: none are everywhere. Throws Refusal. */
export function capacityQuestion(
  { volumeCapabilities, parameters, accessibleTopology }: GetCapacityRequest,
  driver: Driver,
) {
  const ofClass = parseClassParameters(parameters, driver);
  const asked = volumeCapabilities.length === 0 ? ANY_USE : askedUse(volumeCapabilities);
  requireMode(asked.volumeMode, ofClass.backend ?? "loop");
  const segments: Labels = accessibleTopology?.segments ?? {};
  return { ofClass, fsTypes: asked.fsTypes, segments };
}
