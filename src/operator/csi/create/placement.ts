// Which node a new volume is made on, and whether a node has room for it. Pure. The scheduler's choice comes first; a request without one
// gets the node of our driver with the fewest volumes. Room is what a node's agent reported last (NodeStorage): a node that has reported
// nothing is not held to be full; the agent itself looks again before it makes the member.
import type { Driver } from "../../../contracts/csi/driver.ts";
import { Refusal } from "../../../contracts/csi/refusal.ts";
import type { Topology, TopologyRequirement } from "../../../contracts/gen/csi/v1/csi.ts";
import type { OwnBackend } from "../../../contracts/kinds/filesystem-layout.ts";
import type { NodeStorage } from "../../../contracts/kinds/node-storage.ts";
import type { CSINode } from "../../../contracts/kubernetes/resources.ts";
import { TOPOLOGY_NODE } from "../../../contracts/names.ts";
import { formatBytes, parseQuantity } from "../../../contracts/quantities/quantity.ts";
import { describeTopologies, isWithin } from "../../decide/volume-topology.ts";

/** The node that the request names; undefined: it leaves the choice to us, for a span perhaps within places. Throws Refusal. */
export function requestedNode(requirement: TopologyRequirement | undefined, driver: Driver): string | undefined {
  const topologies = topologiesIn(requirement);
  const nodeName = topologies.map(nodeOf).find((name) => name !== undefined);
  if (nodeName !== undefined || topologies.length === 0 || driver.attaches) return nodeName;
  throw new Refusal(
    "INVALID_ARGUMENT",
    `no topology in the request has a segment ${TOPOLOGY_NODE}; is ${driver.name} registered on the chosen node?`,
  );
}

/**
 * Where a request that names no node lets a span be: csi-provisioner hands on allowedTopologies of a class that binds at once. None:
 * anywhere.
 */
export function requestedPlaces(requirement: TopologyRequirement | undefined): readonly Topology[] {
  const requisite = requirement?.requisite ?? [];
  return requisite.some((topology) => nodeOf(topology) !== undefined) ? [] : requisite;
}

/**
 * Those of the first place in the request that has any, by the labels of their Nodes: csi-provisioner has the volumes of a StatefulSet begin
 * with different ones. Throws Refusal.
 */
export function nodesInPlace(
  nodes: readonly CSINode[],
  labelsOf: (nodeName: string) => Readonly<Record<string, string>>,
  requirement: TopologyRequirement | undefined,
): readonly CSINode[] {
  const places = topologiesIn(requirement);
  if (places.length === 0) return nodes;
  const within = places.map((place) => nodes.filter(({ metadata }) => isWithin([place], labelsOf(metadata.name))));
  const found = within.find((some) => some.length > 0);
  if (found === undefined)
    throw new Refusal(
      "RESOURCE_EXHAUSTED",
      `the request allows volumes ${describeTopologies(requestedPlaces(requirement))} only, and by their labels the ${nodes.length} nodes with the driver are elsewhere`,
    );
  return found;
}

function topologiesIn(requirement: TopologyRequirement | undefined): readonly Topology[] {
  return [...(requirement?.preferred ?? []), ...(requirement?.requisite ?? [])];
}

/** Whether a volume on `nodeName` satisfies the request. */
export function isAccessibleFrom(requirement: TopologyRequirement | undefined, nodeName: string): boolean {
  const requisite = requirement?.requisite ?? [];
  return requisite.length === 0 || requisite.some((topology) => nodeOf(topology) === nodeName);
}

/** Whether our driver is registered on the node. */
export function hasDriver({ spec }: CSINode, driver: Driver): boolean {
  return spec.drivers.some(({ name }) => name === driver.name);
}

/** `volumesByNode` counts the volumes that exist. Throws Refusal. */
export function leastUsedNode(
  nodes: readonly CSINode[],
  volumesByNode: ReadonlyMap<string, number>,
  driver: Driver,
): string {
  const [nodeName] = nodes
    .flatMap(({ spec }) => spec.drivers.filter(({ name }) => name === driver.name).map(({ nodeID }) => nodeID))
    .sort((a, b) => (volumesByNode.get(a) ?? 0) - (volumesByNode.get(b) ?? 0) || (a < b ? -1 : 1));
  if (nodeName === undefined) throw new Refusal("UNAVAILABLE", `no node has registered the driver ${driver.name} yet`);
  return nodeName;
}

function nodeOf({ segments }: Topology): string | undefined {
  return segments[TOPOLOGY_NODE];
}

/** Where members are asked for; `deviceClass` undefined: the node's default class of the backend. */
interface WantedClass {
  readonly backend: OwnBackend;
  readonly deviceClass: string | undefined;
}

type DeviceClass = NonNullable<NonNullable<NodeStorage["status"]>["deviceClasses"]>[number];

/** Undefined: not reported, or the node has no such class. The backend loop has one class, which needs no name and no mark. */
export function deviceClassOf(storage: NodeStorage | undefined, wanted: WantedClass): DeviceClass | undefined {
  return classesOf(storage, wanted).find(
    ({ name, default: isDefault }) =>
      wanted.backend !== "lvm" || (wanted.deviceClass === undefined ? isDefault === true : name === wanted.deviceClass),
  );
}

/** Undefined: not reported. A class that the node does not have, or that nothing can be made of now, has nothing free. */
export function freeBytesOf(storage: NodeStorage | undefined, wanted: WantedClass): number | undefined {
  const found = deviceClassOf(storage, wanted);
  if (found !== undefined) return found.problem === undefined ? parseQuantity(found.free) : 0;
  return wanted.backend === "lvm" && storage?.status?.deviceClasses !== undefined ? 0 : undefined;
}

/**
 * RESOURCE_EXHAUSTED lets csi-provisioner ask the scheduler for another node. A value, since one node without room refuses nothing while
 * another has some.
 */
export function refusalOfRoom(
  nodeName: string,
  storage: NodeStorage | undefined,
  wanted: WantedClass,
  memberBytes: number,
): Refusal | undefined {
  const freeBytes = freeBytesOf(storage, wanted);
  if (freeBytes === undefined || memberBytes <= freeBytes) return undefined;
  const found = deviceClassOf(storage, wanted);
  if (found === undefined) return exhausted(`node ${nodeName} has no ${lackingClass(storage, wanted)}`);
  if (found.problem !== undefined)
    return exhausted(`nothing can be made in device class ${found.name} of node ${nodeName} now: ${found.problem}`);
  const pool = found.thinPool;
  const filled =
    pool === undefined
      ? ""
      : ` (its thin pool has ${pool.dataPercent}% of its data and ${pool.metadataPercent}% of its metadata in use)`;
  return exhausted(
    `node ${nodeName} has ${formatBytes(freeBytes)} left for members${filled}, and the volume needs ${formatBytes(memberBytes)}; free space there or lower the request or initialSize`,
  );
}

function lackingClass(storage: NodeStorage | undefined, wanted: WantedClass): string {
  const names = classesOf(storage, wanted).map(({ name }) => name);
  const which = wanted.deviceClass === undefined ? "default device class" : `device class "${wanted.deviceClass}"`;
  return `${which} of backend ${wanted.backend}; it has: ${names.join(", ") || "none"}`;
}

function classesOf(storage: NodeStorage | undefined, { backend }: WantedClass): DeviceClass[] {
  return storage?.status?.deviceClasses?.filter((one) => one.backend === backend) ?? [];
}

function exhausted(message: string): Refusal {
  return new Refusal("RESOURCE_EXHAUSTED", message);
}
