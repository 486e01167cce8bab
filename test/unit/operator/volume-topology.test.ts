import { expect, it } from "@jest/globals";
import type { NodeSelectorTerm } from "../../../src/kube/resources.ts";
import { topologiesOf } from "../../../src/operator/member/volume-topology.ts";

const zone = (operator: string, ...values: string[]) => ({ key: "zone", operator, values });
const topologies = (...nodeSelectorTerms: NodeSelectorTerm[]) =>
  topologiesOf({
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: "pv-1" },
    spec: nodeSelectorTerms.length === 0 ? {} : { nodeAffinity: { required: { nodeSelectorTerms } } },
  });

it.each<[string, NodeSelectorTerm[], Record<string, string>[] | undefined]>([
  ["no affinity is anywhere", [], []],
  ["one term is one topology", [{ matchExpressions: [zone("In", "a")] }], [{ zone: "a" }]],
  [
    "terms are alternatives",
    [{ matchExpressions: [zone("In", "a")] }, { matchExpressions: [zone("In", "b")] }],
    [{ zone: "a" }, { zone: "b" }],
  ],
  ["values are alternatives", [{ matchExpressions: [zone("In", "a", "b")] }], [{ zone: "a" }, { zone: "b" }]],
  [
    "expressions hold together",
    [{ matchExpressions: [zone("In", "a", "b"), { key: "rack", operator: "In", values: ["1"] }] }],
    [
      { zone: "a", rack: "1" },
      { zone: "b", rack: "1" },
    ],
  ],
  ["what CSI has no words for is no topology", [{ matchExpressions: [zone("NotIn", "a")] }], undefined],
])("%s", (_what, terms, expected) => {
  expect(topologies(...terms)?.map(({ segments }) => segments)).toEqual(expected);
});
