// Checks a value against a structural schema and says what is wrong in the words of kube-apiserver. CEL rules are checked
// in validation-rules.ts.
import { RE2JS } from "re2js";
import { canonicalJson, equalJson, isJsonObject, type JsonObject } from "../store/json.ts";
import type { FieldError } from "./field-errors.ts";
import type { Schema } from "./schema.ts";

/** Everything that is wrong with a value; nothing is changed. */
export function validateSchema(schema: Schema, value: unknown, path: string): FieldError[] {
  if (value === null) return schema.nullable || schema.type === undefined ? [] : [typeError(schema, value, path)];
  if (!hasType(schema, value)) return [typeError(schema, value, path)];
  return [
    ...enumErrors(schema, value, path),
    ...scalarErrors(schema, value, path),
    ...(Array.isArray(value) ? listErrors(schema, value, path) : []),
    ...(isJsonObject(value) ? objectErrors(schema, value, path) : []),
    ...junctorErrors(schema, value, path),
  ];
}

function hasType(schema: Schema, value: unknown): boolean {
  if (schema["x-kubernetes-int-or-string"]) return typeof value === "string" || Number.isInteger(value);
  switch (schema.type) {
    case undefined:
      return true;
    case "object":
      return isJsonObject(value);
    case "array":
      return Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    default:
      return typeof value === schema.type;
  }
}

function typeName(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value;
}

function typeError(schema: Schema, value: unknown, path: string): FieldError {
  const name = typeName(value);
  const wanted = schema["x-kubernetes-int-or-string"] ? "integer,string" : schema.type;
  const message = `Invalid value: "${name}": ${path} in body must be of type ${wanted}: "${name}"`;
  return { field: path, reason: "FieldValueTypeInvalid", message };
}

function invalidValue(path: string, value: unknown, message: string): FieldError {
  const shown = isJsonObject(value) || Array.isArray(value) ? `"${typeName(value)}"` : JSON.stringify(value);
  return { field: path, reason: "FieldValueInvalid", message: `Invalid value: ${shown}: ${message}` };
}

function enumErrors(schema: Schema, value: unknown, path: string): FieldError[] {
  if (schema.enum === undefined || schema.enum.some((allowed) => equalJson(allowed, value))) return [];
  const supported = schema.enum.map((allowed) => JSON.stringify(allowed)).join(", ");
  const message = `Unsupported value: ${JSON.stringify(value)}: supported values: ${supported}`;
  return [{ field: path, reason: "FieldValueNotSupported", message }];
}

function scalarErrors(schema: Schema, value: unknown, path: string): FieldError[] {
  if (typeof value === "string") return stringErrors(schema, value, path);
  if (typeof value === "number") return numberErrors(schema, value, path);
  return [];
}

function stringErrors(schema: Schema, value: string, path: string): FieldError[] {
  const errors: FieldError[] = [];
  const { minLength, maxLength, pattern } = schema;
  const length = [...value].length;
  if (maxLength !== undefined && length > maxLength)
    errors.push({
      field: path,
      reason: "FieldValueTooLong",
      message: `Too long: may not be more than ${maxLength} bytes`,
    });
  if (minLength !== undefined && length < minLength)
    errors.push(invalidValue(path, value, `${path} in body should be at least ${minLength} chars long`));
  if (pattern !== undefined && !compiledPattern(pattern).matcher(value).find())
    errors.push(invalidValue(path, value, `${path} in body should match '${pattern}'`));
  if (schema.format === "date-time" && Number.isNaN(Date.parse(value)))
    errors.push(invalidValue(path, value, `${path} in body must be of type date-time: ${JSON.stringify(value)}`));
  return errors;
}

const patterns = new Map<string, RE2JS>();
/** Compiled patterns that are cached; above this number the cache starts empty. */
const PATTERNS_KEPT = 1000;

/** Patterns are RE2, as in kube-apiserver. Throws for any other pattern. */
export function compiledPattern(pattern: string): RE2JS {
  let compiled = patterns.get(pattern);
  if (compiled === undefined) {
    if (patterns.size >= PATTERNS_KEPT) patterns.clear();
    compiled = RE2JS.compile(pattern);
    patterns.set(pattern, compiled);
  }
  return compiled;
}

function numberErrors(schema: Schema, value: number, path: string): FieldError[] {
  const errors: FieldError[] = [];
  const { minimum, maximum, multipleOf } = schema;
  const below = minimum !== undefined && (schema.exclusiveMinimum ? value <= minimum : value < minimum);
  const above = maximum !== undefined && (schema.exclusiveMaximum ? value >= maximum : value > maximum);
  const orEqual = (exclusive: boolean | undefined) => (exclusive ? "" : " or equal to");
  if (below)
    errors.push(
      invalidValue(path, value, `${path} in body should be greater than${orEqual(schema.exclusiveMinimum)} ${minimum}`),
    );
  if (above)
    errors.push(
      invalidValue(path, value, `${path} in body should be less than${orEqual(schema.exclusiveMaximum)} ${maximum}`),
    );
  if (multipleOf !== undefined && !Number.isInteger(value / multipleOf))
    errors.push(invalidValue(path, value, `${path} in body should be a multiple of ${multipleOf}`));
  return errors;
}

function listErrors(schema: Schema, list: readonly unknown[], path: string): FieldError[] {
  const errors: FieldError[] = [];
  const { minItems, maxItems, items } = schema;
  if (maxItems !== undefined && list.length > maxItems) errors.push(tooMany(path, list.length, maxItems));
  if (minItems !== undefined && list.length < minItems)
    errors.push(invalidValue(path, list.length, `${path} in body should have at least ${minItems} items`));
  if (items !== undefined) list.forEach((item, i) => errors.push(...validateSchema(items, item, `${path}[${i}]`)));
  return [...errors, ...duplicateErrors(schema, list, path)];
}

function tooMany(path: string, count: number, most: number): FieldError {
  const message = `Too many: ${count}: must have at most ${most} items`;
  return { field: path, reason: "FieldValueTooMany", message };
}

function duplicateErrors(schema: Schema, list: readonly unknown[], path: string): FieldError[] {
  const type = schema["x-kubernetes-list-type"];
  if (type !== "map" && type !== "set") return [];
  const seen = new Set<string>();
  const errors: FieldError[] = [];
  list.forEach((item, i) => {
    const identity = type === "map" ? keysOf(schema, item) : item;
    const text = canonicalJson(identity);
    if (seen.has(text))
      errors.push({ field: `${path}[${i}]`, reason: "FieldValueDuplicate", message: `Duplicate value: ${text}` });
    seen.add(text);
  });
  return errors;
}

function keysOf(schema: Schema, item: unknown): JsonObject {
  const keys = schema["x-kubernetes-list-map-keys"] ?? [];
  return Object.fromEntries(keys.map((key) => [key, isJsonObject(item) ? item[key] : undefined]));
}

function objectErrors(schema: Schema, object: JsonObject, path: string): FieldError[] {
  const errors: FieldError[] = [];
  const { minProperties, maxProperties, required = [], properties = {}, additionalProperties } = schema;
  const keys = Object.keys(object).filter((key) => object[key] !== undefined);
  for (const key of required)
    if (object[key] === undefined)
      errors.push({ field: join(path, key), reason: "FieldValueRequired", message: "Required value" });
  if (maxProperties !== undefined && keys.length > maxProperties)
    errors.push(tooMany(path, keys.length, maxProperties));
  if (minProperties !== undefined && keys.length < minProperties)
    errors.push(invalidValue(path, keys.length, `${path} in body should have at least ${minProperties} properties`));
  for (const key of keys) {
    const declared = Object.hasOwn(properties, key) ? properties[key] : undefined;
    const field = declared ?? (typeof additionalProperties === "object" ? additionalProperties : undefined);
    if (field !== undefined) errors.push(...validateSchema(field, object[key], join(path, key)));
  }
  return errors;
}

function join(path: string, key: string): string {
  return path === "" ? key : `${path}.${key}`;
}

function junctorErrors(schema: Schema, value: unknown, path: string): FieldError[] {
  const errors = (schema.allOf ?? []).flatMap((each) => validateSchema(each, value, path));
  const holds = (each: Schema) => validateSchema(each, value, path).length === 0;
  const { oneOf, anyOf, not } = schema;
  const name = JSON.stringify(path);
  if (anyOf && !anyOf.some(holds)) errors.push(junctorError(`${name} must validate at least one schema (anyOf)`));
  const matching = oneOf?.filter(holds).length ?? 1;
  if (matching !== 1) {
    const found = matching === 0 ? "Found none valid" : `Found ${matching} valid alternatives`;
    errors.push(junctorError(`${name} must validate one and only one schema (oneOf). ${found}`));
  }
  if (not && holds(not)) errors.push(junctorError(`${name} must not validate the schema (not)`));
  return errors;
}

// kube-apiserver names no field here but in the message.
function junctorError(message: string): FieldError {
  return { field: "<nil>", reason: "FieldValueInvalid", message: `Invalid value: "": ${message}` };
}
