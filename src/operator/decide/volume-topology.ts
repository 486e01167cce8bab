// PersistentVolumes' node affinity as CSI topologies: where a span can be used is where all of its members can. Pure.
import type { Topology } from "../../contracts/gen/csi/v1/csi.ts";
import type { NodeSelectorTerm, PersistentVolume, StorageClass } from "../../contracts/kubernetes/resources.ts";

/** Any of them; none: anywhere. Undefined: it says what CSI cannot say. */
export function topologiesOf({ spec }: PersistentVolume): Topology[] | undefined {
  const terms = spec.nodeAffinity?.required?.nodeSelectorTerms ?? [];
  const all = terms.map(segmentsOf);
  return all.every((one) => one !== undefined) ? all.flat().map((segments) => ({ segments })) : undefined;
}

/** Where a class lets volumes be made; none: anywhere. */
export function allowedTopologies({ allowedTopologies: terms = [] }: StorageClass): Topology[] {
  return terms.flatMap(({ matchLabelExpressions = [] }) => {
    const matchExpressions = matchLabelExpressions.map(({ key, values }) => ({ key, operator: "In", values }));
    return (segmentsOf({ matchExpressions }) ?? []).map((segments) => ({ segments }));
  });
}

/** Where both can be used; none: anywhere. Undefined: nowhere. */
export function sharedTopologies(some: readonly Topology[], others: readonly Topology[]): Topology[] | undefined {
  if (some.length === 0 || others.length === 0) return [...some, ...others];
  const shared = some.flatMap((one) => others.flatMap((other) => bothOf(one, other) ?? []));
  const byText = new Map(
    shared.map((topology) => [JSON.stringify(Object.entries(topology.segments).sort()), topology]),
  );
  return byText.size === 0 ? undefined : [...byText.values()];
}

/** Whether a node with these labels is in one of them. */
export function isWithin(topologies: readonly Topology[], labels: Readonly<Record<string, string>>): boolean {
  if (topologies.length === 0) return true;
  return topologies.some(({ segments }) => Object.entries(segments).every(([key, value]) => labels[key] === value));
}

export function describeTopologies(topologies: readonly Topology[]): string {
  const all = topologies.map(({ segments }) => Object.entries(segments).map((pair) => pair.join("=")));
  return all.length === 0 ? "anywhere" : `in ${all.map((pairs) => pairs.join(",")).join(" or ")}`;
}

function bothOf({ segments: one }: Topology, { segments: other }: Topology): Topology | undefined {
  const contradicts = Object.entries(one).some(([key, value]) => other[key] !== undefined && other[key] !== value);
  return contradicts ? undefined : { segments: { ...one, ...other } };
}

/** One set of segments for each combination of values. */
function segmentsOf({ matchExpressions = [] }: NodeSelectorTerm): Record<string, string>[] | undefined {
  let combined: Record<string, string>[] = [{}];
  for (const { key, operator, values = [] } of matchExpressions) {
    if (operator !== "In" || values.length === 0) return undefined;
    combined = combined.flatMap((segments) => values.map((value) => ({ ...segments, [key]: value })));
  }
  return combined;
}
