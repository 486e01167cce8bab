// From where a volume can be reached: from its node, from the nodes of its zone, or from everywhere, as the switches say. Pure.
import type { Topology, TopologyRequirement } from "../../src/contracts/gen/csi/v1/csi.ts";
import type { Switches } from "./switches.ts";
import type { KnownNode } from "./volume-files.ts";

export type Segments = Readonly<Record<string, string>>;

const ZONE_OF_OTHERS = "shared";

/** Undefined without topology. */
export function nodeSegments(driverName: string, { topology, zones }: Switches, node: string): Segments | undefined {
  switch (topology) {
    case "none":
      return undefined;
    case "node":
      return { [`topology.${driverName}/node`]: node };
    case "zone":
      return { [`topology.${driverName}/zone`]: zones[node] ?? ZONE_OF_OTHERS };
  }
}

/** For a new volume: those of the first wanted topology that some node has; of any node when nothing is wanted. */
export function chosenNode(
  nodes: readonly KnownNode[],
  wanted: TopologyRequirement | undefined,
): KnownNode | undefined {
  const topologies = [...(wanted?.preferred ?? []), ...(wanted?.requisite ?? [])];
  if (topologies.length === 0) return nodes[0];
  return topologies.map(({ segments }) => nodes.find((node) => canReach(node, segments))).find((node) => node);
}

export function canReach(node: KnownNode, segments: Segments | undefined): boolean {
  return Object.entries(segments ?? {}).every(([key, value]) => node.segments?.[key] === value);
}

export function topologyOf(segments: Segments | undefined): Topology[] {
  return segments === undefined ? [] : [{ segments: { ...segments } }];
}
