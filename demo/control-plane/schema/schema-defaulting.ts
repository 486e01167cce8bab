// Defaults that a schema declares, filled in where a field is absent, or null without being nullable.
import { cloneJson, isJsonObject } from "../store/json.ts";
import type { Schema } from "./schema.ts";

/** Fills in defaults and drops nulls that the schema does not allow, in place. */
export function applyDefaults(schema: Schema, value: unknown): void {
  if (Array.isArray(value)) {
    if (schema.items) for (const item of value) applyDefaults(schema.items, item);
    return;
  }
  if (!isJsonObject(value)) return;
  for (const [key, field] of Object.entries(schema.properties ?? {})) {
    if (value[key] === null && !field.nullable && !keepsNull(field)) delete value[key];
    if (value[key] === undefined && field.default !== undefined) value[key] = cloneJson(field.default);
    if (value[key] !== undefined) applyDefaults(field, value[key]);
  }
  if (typeof schema.additionalProperties !== "object") return;
  for (const [key, item] of Object.entries(value))
    if (!schema.properties?.[key]) applyDefaults(schema.additionalProperties, item);
}

// Without a type, anything is allowed, null too.
function keepsNull(schema: Schema): boolean {
  return schema.type === undefined && !schema["x-kubernetes-int-or-string"];
}
