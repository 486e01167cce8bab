// The structural OpenAPI schema of a kind (apiextensions.k8s.io/v1 JSONSchemaProps, as far as it is honoured here), with
// short builders for the built-in kinds.

export interface ValidationRule {
  rule: string;
  message?: string;
  messageExpression?: string;
  reason?: string;
  fieldPath?: string;
}

export interface Schema {
  type?: "object" | "array" | "string" | "integer" | "number" | "boolean";
  description?: string;
  format?: string;
  default?: unknown;
  nullable?: boolean;
  enum?: unknown[];
  pattern?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: boolean;
  exclusiveMaximum?: boolean;
  multipleOf?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  uniqueItems?: boolean;
  minProperties?: number;
  maxProperties?: number;
  required?: string[];
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema;
  allOf?: Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  not?: Schema;
  "x-kubernetes-preserve-unknown-fields"?: boolean;
  "x-kubernetes-int-or-string"?: boolean;
  "x-kubernetes-embedded-resource"?: boolean;
  "x-kubernetes-list-type"?: "atomic" | "set" | "map";
  "x-kubernetes-list-map-keys"?: string[];
  "x-kubernetes-map-type"?: "granular" | "atomic";
  "x-kubernetes-validations"?: ValidationRule[];
  "x-kubernetes-patch-merge-key"?: string;
  "x-kubernetes-patch-strategy"?: string;
}

export const text: Schema = { type: "string" };
export const flag: Schema = { type: "boolean" };
export const integer: Schema = { type: "integer" };
export const time: Schema = { type: "string", format: "date-time" };
export const quantity: Schema = { "x-kubernetes-int-or-string": true };
export const anything: Schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
export const stringMap: Schema = { type: "object", additionalProperties: text };
export const quantityMap: Schema = { type: "object", additionalProperties: quantity };

/** An object of known fields. */
export function fields(properties: Record<string, Schema>, required: string[] = []): Schema {
  return { type: "object", properties, ...(required.length === 0 ? {} : { required }) };
}

/** A list that is replaced as a whole. */
export function atomicList(items: Schema): Schema {
  return { type: "array", items, "x-kubernetes-list-type": "atomic" };
}

/** A list of distinct scalars, merged by value. */
export function setOf(items: Schema): Schema {
  return { type: "array", items, "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge" };
}

/** A list of objects, merged by the values of their keys; a strategic merge patch merges by the first. */
export function keyedList(items: Schema, ...keys: [string, ...string[]]): Schema {
  return {
    type: "array",
    items,
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": keys,
    "x-kubernetes-patch-merge-key": keys[0],
    "x-kubernetes-patch-strategy": "merge",
  };
}

/** An object that is replaced as a whole. */
export function atomic(schema: Schema): Schema {
  return { ...schema, "x-kubernetes-map-type": "atomic" };
}
