import { readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { parse } from "yaml";
import { KINDS } from "../../../../src/contracts/kinds/kinds.ts";

type Schema = { [key: string]: unknown };

interface Definition {
  spec: { versions: [{ schema: { openAPIV3Schema: { properties: { spec: Schema; status: Schema } } } }] };
}

function* nodesOf(schema: unknown, path: string): Generator<[string, Schema]> {
  if (typeof schema !== "object" || schema === null) return;
  if (!Array.isArray(schema)) yield [path, schema as Schema];
  for (const [key, value] of Object.entries(schema)) yield* nodesOf(value, `${path}.${key}`);
}

/** The schemas of the fields that a user can set or read, items of lists included. */
function* fieldsOf(schema: Schema, path: string): Generator<[string, Schema]> {
  yield [path, schema];
  const properties = (schema["properties"] ?? {}) as Record<string, Schema>;
  for (const [name, field] of Object.entries(properties)) yield* fieldsOf(field, `${path}.${name}`);
  if (schema["items"]) yield* fieldsOf(schema["items"] as Schema, `${path}[]`);
  if (schema["additionalProperties"]) yield* fieldsOf(schema["additionalProperties"] as Schema, `${path}[KEY]`);
}

const WRITTEN_BY_USERS = ["volumepolicies", "clustervolumepolicies", "scalingapprovals"];
const WITHOUT_LISTS = ["logicalvolumes"];

describe.each(KINDS.map((kind) => [kind.kind, kind.plural] as const))("the CRD of %s", (_kind, plural) => {
  const crd = parse(readFileSync(`kustomize/foundation/crds/tidemark.dev_${plural}.yaml`, "utf8")) as Definition;
  const nodes = [...nodesOf(crd, "crd")];

  it("is a structural schema: no $ref, no closed objects, no union of types", () => {
    const offending = nodes.filter(
      ([, node]) => "$ref" in node || node["additionalProperties"] === false || "anyOf" in node || "oneOf" in node,
    );
    expect(offending.map(([path]) => path)).toEqual([]);
  });

  it("bounds every list, so that its CEL rules have a bounded cost", () => {
    const unbounded = nodes.filter(
      ([, node]) => node["type"] === "array" && node["maxItems"] === undefined && "items" in node,
    );
    expect(
      unbounded.map(([path]) => path).filter((path) => !path.endsWith("values") && !path.endsWith("storageClassNames")),
    ).toEqual([]);
  });

  it("describes every field in a sentence or more, so that kubectl explain tells what it means", () => {
    const { properties } = crd.spec.versions[0].schema.openAPIV3Schema;
    const fields = [...fieldsOf(properties.spec, "spec"), ...fieldsOf(properties.status, "status")];
    expect(fields.length).toBeGreaterThan(3);
    const silent = fields.filter(
      ([, { description }]) => !/^[A-Z].{9,}\.$/.test(typeof description === "string" ? description : ""),
    );
    expect(silent.map(([path]) => path)).toEqual([]);
  });

  it("has no regular expression for what a user writes: Kubernetes would show it", () => {
    const { spec } = crd.spec.versions[0].schema.openAPIV3Schema.properties;
    const refused = [...fieldsOf(spec, "spec")].filter(([, { pattern }]) => pattern !== undefined);
    if (!WRITTEN_BY_USERS.includes(plural)) return;
    expect(refused.map(([path]) => path)).toEqual([]);
  });

  it("keys its lists of objects, so that several writers can own single entries", () => {
    const lists = nodes.filter(([, { items }]) => (items as Schema | undefined)?.["type"] === "object");
    expect(lists.length > 0).toBe(!WITHOUT_LISTS.includes(plural));
    // A selector is replaced as a whole; so are the windows, which have no names.
    const unkeyed = lists.filter(
      ([path, node]) => !node["x-kubernetes-list-map-keys"] && !/\.(matchExpressions|windows)$/.test(path),
    );
    expect(unkeyed.map(([path]) => path)).toEqual([]);
    for (const [path, node] of lists)
      if (path.endsWith(".conditions")) expect(node["x-kubernetes-list-map-keys"]).toEqual(["type"]);
  });
});
