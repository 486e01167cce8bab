// Fields that a schema does not know: taken out of the object, and named so that the writer learns of them.
import { isJsonObject, type JsonObject } from "../store/json.ts";
import type { Schema } from "./schema.ts";

/** Removes unknown fields from the value, in place; returns their paths. */
export function pruneUnknownFields(schema: Schema, value: unknown, path = ""): string[] {
  if (Array.isArray(value)) {
    const { items } = schema;
    return items === undefined ? [] : value.flatMap((item, i) => pruneUnknownFields(items, item, `${path}[${i}]`));
  }
  return isJsonObject(value) ? pruneObject(schema, value, path) : [];
}

function pruneObject(schema: Schema, object: JsonObject, path: string): string[] {
  const unknown: string[] = [];
  const { properties = {}, additionalProperties } = schema;
  const keepsUnknown = schema["x-kubernetes-preserve-unknown-fields"] === true || additionalProperties === true;
  for (const key of Object.keys(object)) {
    const fieldPath = path === "" ? key : `${path}.${key}`;
    const field = Object.hasOwn(properties, key) ? properties[key] : undefined;
    if (field !== undefined) unknown.push(...pruneUnknownFields(field, object[key], fieldPath));
    else if (typeof additionalProperties === "object")
      unknown.push(...pruneUnknownFields(additionalProperties, object[key], fieldPath));
    else if (!keepsUnknown) {
      delete object[key];
      unknown.push(fieldPath);
    }
  }
  return unknown;
}
