// Which node a new volume is made on. Pure. The scheduler's choice comes first; a request without one gets the node of our
// driver with the fewest volumes.
import { TOPOLOGY_NODE } from "../../api/names.ts";
import type { Driver } from "../../csi/driver.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { Topology, TopologyRequirement } from "../../gen/csi/v1/csi.ts";
import type { CSINode } from "../../kube/resources.ts";

/** The node that the request names; undefined: it leaves the choice to us. */
export function requestedNode(
  requirement: TopologyRequirement | undefined,
  driver: Driver,
): string | undefined | Refusal {
  const topologies = [...(requirement?.preferred ?? []), ...(requirement?.requisite ?? [])];
  if (topologies.length === 0) return undefined;
  const nodeName = topologies.map(nodeOf).find((name) => name !== undefined);
  return (
    nodeName ??
    new Refusal(
      "INVALID_ARGUMENT",
      `no topology in the request has a segment ${TOPOLOGY_NODE}; is ${driver.name} registered on the chosen node?`,
    )
  );
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
