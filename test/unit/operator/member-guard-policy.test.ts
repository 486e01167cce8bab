// What the admission policy of members refuses, and to whom: its validations, evaluated as they stand in the manifest.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { Environment } from "@marcbachmann/cel-js";
import { parseAllDocuments } from "yaml";

interface Policy {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly variables: readonly { readonly name: string; readonly expression: string }[];
    readonly validations: readonly { readonly expression: string }[];
  };
}

const policy = parseAllDocuments(readFileSync("kustomize/base/member-guard.yaml", "utf8"))
  .map((document) => document.toJS() as Policy)
  .find(({ kind, metadata }) => kind === "ValidatingAdmissionPolicy" && metadata.name === "tidemark-member-guard");
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
