// Which node a new volume is made on. Pure. The scheduler's choice comes first; a request without one gets the node of our
// driver with the fewest volumes.
import { TOPOLOGY_NODE } from "../../api/names.ts";
import type { Driver } from "../../csi/driver.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { Topology, TopologyRequirement } from "../../gen/csi/v1/csi.ts";
import type { CSINode } from "../../kube/resources.ts";
import { describeTopologies, isWithin } from "../member/volume-topology.ts";

/** The node that the request names; undefined: it leaves the choice to us, for a span perhaps within places. */
export function requestedNode(
  requirement: TopologyRequirement | undefined,
  driver: Driver,
): string | undefined | Refusal {
  const topologies = topologiesIn(requirement);
  const nodeName = topologies.map(nodeOf).find((name) => name !== undefined);
  if (nodeName !== undefined || topologies.length === 0 || driver.attaches) return nodeName;
  return new Refusal(
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
 * with different ones.
 */
export function nodesInPlace(
  nodes: readonly CSINode[],
  labelsOf: (nodeName: string) => Readonly<Record<string, string>>,
  requirement: TopologyRequirement | undefined,
): readonly CSINode[] | Refusal {
  const places = topologiesIn(requirement);
  if (places.length === 0) return nodes;
  const within = places.map((place) => nodes.filter(({ metadata }) => isWithin([place], labelsOf(metadata.name))));
  return (
    within.find((some) => some.length > 0) ??
    new Refusal(
      "RESOURCE_EXHAUSTED",
      `the request allows volumes ${describeTopologies(requestedPlaces(requirement))} only, and none of the ${nodes.length} nodes with the driver is there by its labels`,
    )
  );
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

/** `volumesByNode` counts the volumes that exist. */
export function leastUsedNode(
  nodes: readonly CSINode[],
  volumesByNode: ReadonlyMap<string, number>,
  driver: Driver,
): string | Refusal {
  const candidates = nodes
    .flatMap(({ spec }) => spec.drivers.filter(({ name }) => name === driver.name).map(({ nodeID }) => nodeID))
    .sort((a, b) => (volumesByNode.get(a) ?? 0) - (volumesByNode.get(b) ?? 0) || (a < b ? -1 : 1));
  return candidates[0] ?? new Refusal("UNAVAILABLE", `no node has registered the driver ${driver.name} yet`);
}

function nodeOf({ segments }: Topology): string | undefined {
  return segments[TOPOLOGY_NODE];
}
