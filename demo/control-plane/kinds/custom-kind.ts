// The kind that a CustomResourceDefinition declares. One served version per definition: Tidemark has one, and objects are
// never converted here.

import { JsonPathError, parseJsonPath } from "../apply/json-path.ts";
import { type CellType, type PrinterColumn, pathCell } from "../lists/printer-column.ts";
import type { FieldError } from "../schema/field-errors.ts";
import { objectMetaSchema } from "../schema/object-meta-schema.ts";
import { type Schema, text } from "../schema/schema.ts";
import { compiledPattern } from "../schema/schema-validation.ts";
import { compileRules } from "../schema/validation-rules.ts";
import { asJsonObject, isJsonObject, type JsonObject } from "../store/json.ts";
import type { ResourceKind } from "./resource-kind.ts";

interface DefinitionNames {
  readonly kind: string;
  readonly listKind?: string;
  readonly plural: string;
  readonly singular?: string;
  readonly shortNames?: string[];
  readonly categories?: string[];
}

interface DefinitionColumn {
  readonly name: string;
  readonly type: CellType;
  readonly format?: string;
  readonly description?: string;
  readonly priority?: number;
  readonly jsonPath: string;
}

interface DefinitionVersion {
  readonly name: string;
  readonly served: boolean;
  readonly schema?: { openAPIV3Schema?: Schema };
  readonly subresources?: { status?: object; scale?: object };
  readonly additionalPrinterColumns?: DefinitionColumn[];
  readonly selectableFields?: { jsonPath: string }[];
}

export interface DefinitionSpec {
  readonly group: string;
  readonly names: DefinitionNames;
  readonly scope: "Cluster" | "Namespaced";
  readonly versions: DefinitionVersion[];
}

/** The declared kind, or all that is wrong with the declaration. The definition satisfies its own schema already. */
export function customKind(definition: JsonObject): { kind: ResourceKind | undefined; errors: FieldError[] } {
  const spec = definition["spec"] as DefinitionSpec;
  const errors = nameErrors(definition, spec);
  const served = spec.versions.filter((version) => version.served);
  const [version] = served;
  if (version === undefined || served.length > 1) {
    const message = `Invalid value: ${served.length}: this control plane serves exactly one version of a kind`;
    return { kind: undefined, errors: [...errors, { field: "spec.versions", reason: "FieldValueInvalid", message }] };
  }
  const path = `spec.versions[${spec.versions.indexOf(version)}]`;
  const schema = wholeSchema(version.schema?.openAPIV3Schema);
  const columns = version.additionalPrinterColumns ?? [];
  const compiled = compileRules(schema, `${path}.schema.openAPIV3Schema`);
  errors.push(
    ...schemaErrors(version.schema?.openAPIV3Schema, `${path}.schema.openAPIV3Schema`),
    ...compiled.errors,
    ...columnErrors(columns, path),
  );
  if (errors.length > 0) return { kind: undefined, errors };
  return { kind: kindOf(spec, version, schema, compiled.rules), errors };
}

function kindOf(
  spec: DefinitionSpec,
  version: DefinitionVersion,
  schema: Schema,
  rules: ResourceKind["rules"],
): ResourceKind {
  const { names } = spec;
  return {
    group: spec.group,
    version: version.name,
    kind: names.kind,
    listKind: names.listKind ?? `${names.kind}List`,
    plural: names.plural,
    singular: names.singular ?? names.kind.toLowerCase(),
    shortNames: names.shortNames ?? [],
    categories: names.categories ?? [],
    namespaced: spec.scope === "Namespaced",
    hasStatus: version.subresources?.status !== undefined,
    hasGeneration: true,
    unconditionalUpdate: false,
    custom: true,
    schema,
    rules,
    columns: version.additionalPrinterColumns?.map(columnOf) ?? [AGE],
    selectableFields: (version.selectableFields ?? []).map(({ jsonPath }) => jsonPath.replace(/^\./, "")),
  };
}

const AGE = columnOf({ name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" });

function columnOf({ jsonPath, ...column }: DefinitionColumn): PrinterColumn {
  return { ...column, cell: pathCell(parseJsonPath(jsonPath), column.type) };
}

// The definition's own word on apiVersion, kind and metadata is replaced: they are the same for every kind.
function wholeSchema(declared: Schema | undefined): Schema {
  const properties = { ...declared?.properties, apiVersion: text, kind: text, metadata: objectMetaSchema };
  return { ...declared, type: "object", properties };
}

function nameErrors(definition: JsonObject, spec: DefinitionSpec): FieldError[] {
  const wanted = `${spec.names.plural}.${spec.group}`;
  const name = asJsonObject(definition["metadata"])["name"];
  if (name === wanted) return [];
  const message = `Invalid value: ${JSON.stringify(name)}: must be spec.names.plural+"."+spec.group`;
  return [{ field: "metadata.name", reason: "FieldValueInvalid", message }];
}

function columnErrors(columns: readonly DefinitionColumn[], path: string): FieldError[] {
  return columns.flatMap((column, i) => {
    try {
      parseJsonPath(column.jsonPath);
      return [];
    } catch (error) {
      if (!(error instanceof JsonPathError)) throw error;
      const message = `Invalid value: ${JSON.stringify(column.jsonPath)}: ${error.message}`;
      return [{ field: `${path}.additionalPrinterColumns[${i}].jsonPath`, reason: "FieldValueInvalid", message }];
    }
  });
}

// What makes a schema structural, and its patterns: a mistake there would silently validate nothing.
function schemaErrors(schema: unknown, path: string): FieldError[] {
  if (!isJsonObject(schema))
    return [{ field: path, reason: "FieldValueRequired", message: "Required value: schemas are required" }];
  return nodeErrors(schema, path);
}

function nodeErrors(schema: Schema, path: string): FieldError[] {
  const errors: FieldError[] = [];
  const untyped = schema["x-kubernetes-int-or-string"] || schema["x-kubernetes-preserve-unknown-fields"];
  if (schema.type === undefined && !untyped)
    errors.push({
      field: `${path}.type`,
      reason: "FieldValueRequired",
      message: "Required value: must not be empty for specified object fields",
    });
  if (schema.type === "array" && schema.items === undefined)
    errors.push({ field: `${path}.items`, reason: "FieldValueRequired", message: "Required value: must be specified" });
  if (schema["x-kubernetes-list-type"] === "map" && !schema["x-kubernetes-list-map-keys"]?.length)
    errors.push({
      field: `${path}.x-kubernetes-list-map-keys`,
      reason: "FieldValueRequired",
      message: 'Required value: must not be empty if x-kubernetes-list-type is "map"',
    });
  errors.push(...unsupportedErrors(schema, path), ...patternErrors(schema, path));
  for (const [name, field] of Object.entries(schema.properties ?? {}))
    errors.push(...nodeErrors(field, `${path}.properties[${name}]`));
  if (schema.items) errors.push(...nodeErrors(schema.items, `${path}.items`));
  if (typeof schema.additionalProperties === "object")
    errors.push(...nodeErrors(schema.additionalProperties, `${path}.additionalProperties`));
  return errors;
}

function unsupportedErrors(schema: Schema, path: string): FieldError[] {
  const forbidden = ["$ref", "definitions", "dependencies", "patternProperties", "additionalItems"];
  const found = forbidden.filter((key) => key in schema);
  if (schema.additionalProperties === false) found.push("additionalProperties");
  if (schema.uniqueItems) found.push("uniqueItems");
  return found.map((key) => ({
    field: `${path}.${key}`,
    reason: "FieldValueForbidden",
    message: `Forbidden: ${key} is not supported`,
  }));
}

function patternErrors(schema: Schema, path: string): FieldError[] {
  if (schema.pattern === undefined) return [];
  try {
    compiledPattern(schema.pattern);
    return [];
  } catch (error) {
    const message = `Invalid value: ${JSON.stringify(schema.pattern)}: must be a valid regular expression, but isn't: ${(error as Error).message}`;
    return [{ field: `${path}.pattern`, reason: "FieldValueInvalid", message }];
  }
}
