// A PersistentVolume's node affinity as CSI topologies: where a span can be used is where its members can. Pure.
import type { Topology } from "../../gen/csi/v1/csi.ts";
import type { NodeSelectorTerm, PersistentVolume } from "../../kube/resources.ts";

/** Any of them; none: anywhere. Undefined: it says what CSI cannot say. */
export function topologiesOf({ spec }: PersistentVolume): Topology[] | undefined {
  const terms = spec.nodeAffinity?.required?.nodeSelectorTerms ?? [];
  const all = terms.map(segmentsOf);
  return all.every((one) => one !== undefined) ? all.flat().map((segments) => ({ segments })) : undefined;
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
