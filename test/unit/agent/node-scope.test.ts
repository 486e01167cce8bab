// Which writes the admission policy of nodes' objects looks at: its match condition, evaluated as it stands in the manifest.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { Environment } from "@marcbachmann/cel-js";
import { parseAllDocuments } from "yaml";

interface Policy {
  readonly kind: string;
  readonly spec: {
    readonly matchConditions: readonly { readonly expression: string }[];
    readonly matchConstraints: { readonly resourceRules: readonly { readonly resources: readonly string[] }[] };
  };
}

const policy = parseAllDocuments(readFileSync("kustomize/foundation/node-scope.yaml", "utf8"))
  .map((document) => document.toJS() as Policy)
  .find(({ kind }) => kind === "ValidatingAdmissionPolicy");
const expressions = (policy?.spec.matchConditions ?? []).map(({ expression }) => expression);
const deleted = { deletionTimestamp: "2026-01-01T00:00:00Z" };

/** `subResource` is absent from a request for the object itself, not empty. */
function isLookedAt(operation: string, resource: string, subResource: string | undefined, metadata: object): boolean {
  const environment = new Environment().registerVariable("request", "dyn").registerVariable("object", "dyn");
  const part = subResource === undefined ? {} : { subResource };
  const context = { request: { operation, resource: { resource }, ...part }, object: { metadata } };
  return expressions.every((expression) => environment.parse(expression)(context) === true);
}

describe("the admission policy of nodes' objects", () => {
  it.each<[string, boolean, string, string, string | undefined, object]>([
    ["a NodeStorage made", true, "CREATE", "nodestorages", undefined, {}],
    ["a NodeStorage changed", true, "UPDATE", "nodestorages", undefined, {}],
    [
      "a NodeStorage that is being deleted, by the garbage collector",
      false,
      "UPDATE",
      "nodestorages",
      undefined,
      deleted,
    ],
    ["the status of one that is being deleted", true, "UPDATE", "nodestorages", "status", deleted],
    ["the status of a layout that is being deleted", true, "UPDATE", "filesystemlayouts", "status", deleted],
  ])("looks at %s: %s", (_what, expected, operation, resource, subResource, metadata) => {
    expect(isLookedAt(operation, resource, subResource, metadata)).toBe(expected);
  });

  it("is of every object that an agent writes for its node", () => {
    const [rule] = policy?.spec.matchConstraints.resourceRules ?? [];
    expect(rule?.resources).toEqual([
      "filesystemlayouts/status",
      "logicalvolumes/status",
      "nodestorages",
      "nodestorages/status",
    ]);
  });
});
