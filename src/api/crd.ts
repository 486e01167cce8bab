// Turns a zod schema into the CustomResourceDefinition that is committed under kustomize/foundation/crds. Pure: text and objects only.
import { z } from "zod";
import { GROUP, VERSION } from "./names.ts";

export interface PrinterColumn {
  name: string;
  type: "string" | "integer" | "date" | "boolean";
  jsonPath: string;
  description?: string;
  priority?: number;
}

export interface CrdDescription {
  kind: string;
  plural: string;
  shortNames: string[];
  scope: "Namespaced" | "Cluster";
  description: string;
  spec: z.ZodType;
  status: z.ZodType;
  columns: PrinterColumn[];
}

/** The whole CRD object of a kind. */
export function customResourceDefinition(description: CrdDescription): object {
  const { kind, plural, shortNames, scope, columns } = description;
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${GROUP}` },
    spec: {
      group: GROUP,
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular: kind.toLowerCase(),
        shortNames,
        categories: ["tidemark"],
      },
      scope,
      versions: [
        {
          name: VERSION,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: columns,
          schema: {
            openAPIV3Schema: {
              description: description.description,
              type: "object",
              required: ["spec"],
              properties: {
                apiVersion: { type: "string" },
                kind: { type: "string" },
                metadata: { type: "object" },
                spec: openApiSchema(description.spec),
                status: openApiSchema(description.status),
              },
            },
          },
        },
      ],
    },
  };
}

/** A structural schema: no $ref, no additionalProperties: false, integer bounds only where we set them. */
export function openApiSchema(schema: z.ZodType): unknown {
  const converted = z.toJSONSchema(schema, { target: "openapi-3.0", io: "input", reused: "inline" });
  return structural(converted);
}

function structural(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(structural);
  if (typeof node !== "object" || node === null) return node;
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(node)) {
    if (key === "$schema" || (key === "additionalProperties" && value === false) || key === "propertyNames") continue;
    if ((key === "minimum" || key === "maximum") && Math.abs(value as number) === Number.MAX_SAFE_INTEGER) continue;
    result[key] = structural(value);
  }
  if (result["type"] === "integer") result["format"] = "int64";
  return withNullableObject(result);
}

// zod writes a nullable object as anyOf [object, null]; a structural schema wants the object with nullable: true.
function withNullableObject(node: Record<string, unknown>): Record<string, unknown> {
  const { anyOf, allOf, ...rest } = node;
  if (Array.isArray(allOf) && allOf.length === 1) return { ...(allOf[0] as object), ...rest };
  if (anyOf === undefined) return node;
  const options = (anyOf as Record<string, unknown>[]).filter(
    (option) => option["type"] !== "null" && !("enum" in option && (option["enum"] as unknown[]).includes(null)),
  );
  return options.length === 1 ? { ...options[0], ...rest, nullable: true } : node;
}
