import { expect, it } from "@jest/globals";
import type { NodeSelectorTerm } from "../../../../src/contracts/kubernetes/resources.ts";
import {
  allowedTopologies,
  isWithin,
  sharedTopologies,
  topologiesOf,
} from "../../../../src/operator/decide/volume-topology.ts";

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

it("a class' allowed topologies are alternatives, and what one of them says holds together", () => {
  const expression = (key: string, ...values: string[]) => ({ key, values });
  const storageClass = { apiVersion: "storage.k8s.io/v1", kind: "StorageClass", metadata: { name: "gp3" } };
  const allowed = (...terms: ReturnType<typeof expression>[][]) =>
    allowedTopologies({
      ...storageClass,
      provisioner: "members.example.com",
      ...(terms.length > 0 && {
        allowedTopologies: terms.map((matchLabelExpressions) => ({ matchLabelExpressions })),
      }),
    }).map(({ segments }) => segments);
  expect(allowed()).toEqual([]);
  expect(allowed([expression("zone", "a", "b"), expression("rack", "1")], [expression("zone", "c")])).toEqual([
    { zone: "a", rack: "1" },
    { zone: "b", rack: "1" },
    { zone: "c" },
  ]);
});

type Segments = Record<string, string>;
const places = (...segments: Segments[]) => segments.map((each) => ({ segments: each }));

it.each<[string, Segments[], Segments[], Segments[] | undefined]>([
  ["anywhere and somewhere is somewhere", [], [{ zone: "a" }], [{ zone: "a" }]],
  ["somewhere and anywhere is the same", [{ zone: "a" }], [], [{ zone: "a" }]],
  ["what both have", [{ zone: "a" }, { zone: "b" }], [{ zone: "b" }, { zone: "c" }], [{ zone: "b" }]],
  ["keys of two drivers hold together", [{ zone: "a" }], [{ rack: "1" }], [{ zone: "a", rack: "1" }]],
  ["nothing is shared by two zones", [{ zone: "a" }], [{ zone: "b" }], undefined],
])("members together: %s", (_what, some, others, expected) => {
  expect(sharedTopologies(places(...some), places(...others))).toEqual(expected && places(...expected));
});

it.each<[string, Segments[], boolean]>([
  ["anywhere", [], true],
  ["its zone", [{ zone: "b" }, { zone: "a" }], true],
  ["another zone", [{ zone: "b" }], false],
  ["a rack that it does not say", [{ zone: "a", rack: "1" }], false],
])("a node of zone a is within %s: %s", (_what, topologies, expected) => {
  expect(isWithin(places(...topologies), { zone: "a", "kubernetes.io/os": "linux" })).toBe(expected);
});
