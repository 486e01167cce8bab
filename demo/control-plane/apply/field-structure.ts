// How a value divides into separately owned fields, as its schema says: granular or atomic maps, keyed lists, sets. On this
// rest server-side apply and the tracking of managed fields.

import type { Schema } from "../schema/schema.ts";
import { canonicalJson, equalJson, isJsonObject, type JsonObject } from "../store/json.ts";
import { type FieldPath, type FieldSet, FieldSetBuilder } from "./field-set.ts";

/** One part of a divisible value. `declared` fields are members only through what is in them. */
export interface Part {
  readonly element: string;
  readonly schema: Schema | undefined;
  readonly value: unknown;
  readonly declared: boolean;
}

/** An applied object that its schema cannot divide; the message says where and why. */
export class FieldStructureError extends Error {
  override name = "FieldStructureError";
}

/** The parts of a value; undefined when it is owned as a whole. */
export function partsOf(schema: Schema | undefined, value: unknown): Part[] | undefined {
  if (Array.isArray(value)) return listParts(schema, value);
  if (!isJsonObject(value) || schema?.["x-kubernetes-map-type"] === "atomic") return undefined;
  return Object.keys(value)
    .filter((key) => value[key] !== undefined)
    .map((key) => ({
      element: `f:${key}`,
      schema: fieldSchema(schema, key),
      value: value[key],
      declared: schema?.properties?.[key] !== undefined,
    }));
}

/** The schema of an object's field; undefined when nothing is known of it. */
export function fieldSchema(schema: Schema | undefined, key: string): Schema | undefined {
  const declared = schema?.properties?.[key];
  if (declared !== undefined) return declared;
  return typeof schema?.additionalProperties === "object" ? schema.additionalProperties : undefined;
}

function listParts(schema: Schema | undefined, list: readonly unknown[]): Part[] | undefined {
  const items = schema?.items;
  switch (schema?.["x-kubernetes-list-type"]) {
    case "set":
      return list.map((value) => ({ element: `v:${canonicalJson(value)}`, schema: items, value, declared: false }));
    case "map": {
      const keys = schema["x-kubernetes-list-map-keys"] ?? [];
      return list.map((value) => ({ element: itemElement(value, keys, items), schema: items, value, declared: false }));
    }
    default:
      return undefined;
  }
}

function itemElement(item: unknown, keys: readonly string[], schema: Schema | undefined): string {
  if (!isJsonObject(item)) throw new FieldStructureError("an item of a keyed list is not an object");
  const identity: JsonObject = {};
  for (const key of keys) {
    const value = item[key] ?? schema?.properties?.[key]?.default;
    if (value === undefined)
      throw new FieldStructureError(`associative list with keys has an element that omits key field "${key}"`);
    identity[key] = value;
  }
  return `k:${canonicalJson(identity)}`;
}

/** The fields that a configuration with this value states. */
export function statedFields(schema: Schema, value: unknown): FieldSet {
  const builder = new FieldSetBuilder();
  state(schema, value, [], builder);
  return builder.build();
}

function state(schema: Schema | undefined, value: unknown, path: FieldPath, builder: FieldSetBuilder): void {
  const parts = partsOf(schema, value);
  if (parts === undefined) {
    builder.insert(path);
    return;
  }
  for (const part of parts) {
    const partPath = [...path, part.element];
    state(part.schema, part.value, partPath, builder);
    if (!part.declared || isEmptyObject(part.value)) builder.insert(partPath);
  }
}

function isEmptyObject(value: unknown): boolean {
  return isJsonObject(value) && Object.keys(value).length === 0;
}

export interface Comparison {
  readonly added: FieldSet;
  readonly modified: FieldSet;
  readonly removed: FieldSet;
}

/** Which fields differ between two values, containers that came or went included. */
export function compareFields(schema: Schema, before: unknown, after: unknown): Comparison {
  const added = new FieldSetBuilder();
  const modified = new FieldSetBuilder();
  const removed = new FieldSetBuilder();
  const compare = (at: Schema | undefined, left: unknown, right: unknown, path: FieldPath): void => {
    if (left === right) return;
    if (left === undefined) return insertAll(at, right, path, added);
    if (right === undefined) return insertAll(at, left, path, removed);
    const leftParts = partsByElement(at, left);
    const rightParts = partsByElement(at, right);
    if (leftParts === undefined || rightParts === undefined || Array.isArray(left) !== Array.isArray(right)) {
      if (!equalJson(left, right)) modified.insert(path);
      return;
    }
    for (const element of new Set([...leftParts.keys(), ...rightParts.keys()])) {
      const leftPart = leftParts.get(element);
      const rightPart = rightParts.get(element);
      compare((leftPart ?? rightPart)?.schema, leftPart?.value, rightPart?.value, [...path, element]);
    }
  };
  compare(schema, before, after, []);
  return { added: added.build(), modified: modified.build(), removed: removed.build() };
}

function insertAll(schema: Schema | undefined, value: unknown, path: FieldPath, builder: FieldSetBuilder): void {
  if (path.length > 0) builder.insert(path);
  for (const part of partsOf(schema, value) ?? []) insertAll(part.schema, part.value, [...path, part.element], builder);
}

export function partsByElement(schema: Schema | undefined, value: unknown): Map<string, Part> | undefined {
  const parts = partsOf(schema, value);
  return parts && new Map(parts.map((part) => [part.element, part]));
}
