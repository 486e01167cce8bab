// What the admission policy of members refuses, and to whom: its validations, evaluated as they stand in the manifest.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { Environment } from "@marcbachmann/cel-js";
import { parseAllDocuments } from "yaml";

interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly { readonly key: string; readonly operator: "Exists" }[];
}

interface Policy {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly matchConstraints: {
      readonly namespaceSelector?: Selector;
      readonly objectSelector?: Selector;
      readonly resourceRules: readonly {
        readonly operations: readonly string[];
        readonly resources: readonly string[];
        readonly resourceNames?: readonly string[];
      }[];
    };
    readonly variables: readonly { readonly name: string; readonly expression: string }[];
    readonly validations: readonly { readonly expression: string }[];
  };
}

const policies = parseAllDocuments(readFileSync("kustomize/foundation/member-guard.yaml", "utf8"))
  .map((document) => document.toJS() as Policy)
  .filter(({ kind }) => kind === "ValidatingAdmissionPolicy");
const policy = policies.find(({ metadata }) => metadata.name === "tidemark-member-guard");
const OPERATOR = "system:serviceaccount:tidemark-system:operator";

interface Written {
  readonly labels?: Record<string, string>;
  readonly annotations?: Record<string, string>;
}

function isAllowed(resource: string, before: Written, after: Written, username: string): boolean {
  const environment = new Environment();
  for (const name of ["request", "object", "oldObject", "params", "variables"])
    environment.registerVariable(name, "dyn");
  const spec = { persistentVolumeReclaimPolicy: "Retain" };
  const context = {
    request: { operation: "UPDATE", resource: { resource }, userInfo: { username } },
    object: { metadata: { name: "one", ...after }, spec },
    oldObject: { metadata: { name: "one", ...before }, spec },
    params: { data: { operator: OPERATOR } },
  };
  const variables: Record<string, unknown> = {};
  for (const { name, expression } of policy?.spec.variables ?? [])
    variables[name] = environment.parse(expression)({ ...context, variables });
  return (policy?.spec.validations ?? []).every(
    ({ expression }) => environment.parse(expression)({ ...context, variables }) === true,
  );
}

const LABELS = { "tidemark.dev/volume-uid": "u", "tidemark.dev/fsid": "f", "tidemark.dev/member": "m1", team: "shop" };
const ANNOTATIONS = { "tidemark.dev/next-member": "3", note: "mine" };
const MEMBER: Written = { labels: LABELS, annotations: ANNOTATIONS };
const without = (key: keyof typeof LABELS): Written => {
  const { [key]: _gone, ...labels } = LABELS;
  return { ...MEMBER, labels };
};
const KINDS = ["persistentvolumeclaims", "persistentvolumes", "volumeattachments"];

describe.each(KINDS)("somebody who changes a member's object among %s", (resource) => {
  it.each<[string, Written]>([
    ["the volume's UID", without("tidemark.dev/volume-uid")],
    ["the filesystem's UUID", without("tidemark.dev/fsid")],
    ["the member's name", without("tidemark.dev/member")],
    ["another member's name", { ...MEMBER, labels: { ...LABELS, "tidemark.dev/member": "m2" } }],
    ["no labels at all", { annotations: ANNOTATIONS }],
    ["a lower count of members", { ...MEMBER, annotations: { "tidemark.dev/next-member": "1" } }],
    ["no annotations at all", { labels: LABELS }],
  ])("is refused %s, which the operator is not", (_what, after) => {
    expect(isAllowed(resource, MEMBER, after, "system:admin")).toBe(false);
    expect(isAllowed(resource, MEMBER, after, OPERATOR)).toBe(true);
  });

  it.each<[string, Written, Written]>([
    ["labels of their own", MEMBER, without("team")],
    ["annotations of their own", MEMBER, { labels: LABELS, annotations: { "tidemark.dev/next-member": "3" } }],
    ["an object of no member", {}, { labels: { team: "shop" } }],
  ])("may change %s", (_what, before, after) => {
    expect(isAllowed(resource, before, after, "system:admin")).toBe(true);
  });
});

interface Deletion {
  readonly resource: string;
  /** Absent: of a whole collection, where the API server names nothing. */
  readonly name?: string;
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

function selects(selector: Selector = {}, labels: Readonly<Record<string, string>> = {}): boolean {
  const { matchLabels = {}, matchExpressions = [] } = selector;
  return (
    Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
    matchExpressions.every(({ key }) => key in labels)
  );
}

/** As the API server finds the policies that a request is held against. What is in no namespace no selector of namespaces leaves out. */
function guardsOf({ resource, name = "", namespace, labels }: Deletion): string[] {
  const isSeen = ({ spec: { matchConstraints } }: Policy): boolean =>
    (namespace === undefined ||
      selects(matchConstraints.namespaceSelector, { "kubernetes.io/metadata.name": namespace })) &&
    selects(matchConstraints.objectSelector, labels) &&
    matchConstraints.resourceRules.some(
      ({ operations, resources, resourceNames }) =>
        operations.includes("DELETE") && resources.includes(resource) && (resourceNames?.includes(name) ?? true),
    );
  return policies.filter(isSeen).map(({ metadata }) => metadata.name);
}

const OURS = { "tidemark.dev/foundation": "true" };
const DEFINITIONS = "customresourcedefinitions";
const FILESYSTEMS = "filesystems.tidemark.dev";

it.each<[string, Deletion, string[]]>([
  ["a member's claim", { resource: KINDS[0] ?? "", namespace: "tidemark-volumes", labels: LABELS }, ["member"]],
  ["a member's volume", { resource: KINDS[1] ?? "", labels: LABELS }, ["member"]],
  ["a member's attachment", { resource: KINDS[2] ?? "", labels: LABELS }, ["member"]],
  [
    "a claim that a tenant has labelled as a member",
    { resource: KINDS[0] ?? "", namespace: "shop", labels: LABELS },
    [],
  ],
  ["the members' namespace", { resource: "namespaces", name: "tidemark-volumes" }, ["root"]],
  ["any other namespace", { resource: "namespaces", name: "shop" }, []],
  ["a definition", { resource: DEFINITIONS, name: FILESYSTEMS, labels: OURS }, ["root", "definitions"]],
  ["a definition that has lost its label", { resource: DEFINITIONS, name: FILESYSTEMS }, ["root"]],
  ["a definition with its whole collection", { resource: DEFINITIONS, labels: OURS }, ["definitions"]],
  ["our CSIDriver", { resource: "csidrivers", name: "span.tidemark.dev" }, ["root"]],
  ["somebody else's CSIDriver", { resource: "csidrivers", name: "csi.example.com" }, []],
  ["somebody else's definition", { resource: DEFINITIONS, name: "widgets.example.com" }, []],
])("the deletion of %s is held against the guards that it concerns, and no others", (_what, deletion, guards) => {
  expect(guardsOf(deletion)).toEqual(guards.map((guard) => `tidemark-${guard}-guard`));
});
