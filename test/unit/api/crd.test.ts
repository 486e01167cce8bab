import { readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { parse } from "yaml";
import { KINDS } from "../../../src/api/kinds.ts";

type Schema = { [key: string]: unknown };

function* nodesOf(schema: unknown, path: string): Generator<[string, Schema]> {
  if (typeof schema !== "object" || schema === null) return;
  if (!Array.isArray(schema)) yield [path, schema as Schema];
  for (const [key, value] of Object.entries(schema)) yield* nodesOf(value, `${path}.${key}`);
}

describe.each(KINDS.map((kind) => [kind.kind, kind.plural] as const))("the CRD of %s", (_kind, plural) => {
  const crd = parse(readFileSync(`kustomize/base/crds/tidemark.dev_${plural}.yaml`, "utf8")) as Schema;
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

  it("keys its lists of objects, so that several writers can own single entries", () => {
    const conditions = nodes.filter(([path]) => path.endsWith(".conditions"));
    expect(conditions.length).toBeGreaterThan(0);
    for (const [, node] of conditions) expect(node["x-kubernetes-list-map-keys"]).toEqual(["type"]);
  });
});
