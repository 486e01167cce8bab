// metadata.managedFields: who owns which fields. An ordinary update takes what it changed; an apply owns what it states.

import type { Schema } from "../schema/schema.ts";
import { asJsonObject, isJsonObject, type JsonObject } from "../store/json.ts";
import type { ManagedFieldsEntry } from "../store/stored-object.ts";
import {
  decodeFieldSet,
  differenceOfSets,
  EMPTY_SET,
  encodeFieldSet,
  equalSets,
  type FieldSet,
  FieldSetBuilder,
  isEmptySet,
  unionSets,
} from "./field-set.ts";
import { compareFields } from "./field-structure.ts";

/** Who writes: an entry of managedFields is named by all four. */
export interface Writer {
  readonly manager: string;
  readonly operation: "Apply" | "Update";
  readonly apiVersion: string;
  readonly subresource: string;
}

export interface Ownership {
  readonly writer: Writer;
  readonly set: FieldSet;
  readonly time: string | undefined;
}

/** By writerKey. */
export type Ownerships = ReadonlyMap<string, Ownership>;

export function writerKey(writer: Writer): string {
  return JSON.stringify([writer.manager, writer.operation, writer.apiVersion, writer.subresource]);
}

// Fields without an owner: they identify the object, or the server alone writes them.
const UNOWNED_METADATA = [
  "name",
  "namespace",
  "creationTimestamp",
  "uid",
  "generation",
  "resourceVersion",
  "managedFields",
  "selfLink",
];
const unowned = new FieldSetBuilder();
for (const field of ["apiVersion", "kind", "metadata"]) unowned.insert([`f:${field}`]);
for (const field of UNOWNED_METADATA) unowned.insert(["f:metadata", `f:${field}`]);
const UNOWNED: FieldSet = unowned.build();

/** A set without those fields. */
export function ownable(set: FieldSet): FieldSet {
  return differenceOfSets(set, UNOWNED);
}

export function decodeOwnerships(entries: unknown): Ownerships {
  const ownerships = new Map<string, Ownership>();
  for (const entry of Array.isArray(entries) ? entries.filter(isJsonObject) : []) {
    if (typeof entry["manager"] !== "string" || typeof entry["apiVersion"] !== "string") continue;
    const writer: Writer = {
      manager: entry["manager"],
      operation: entry["operation"] === "Apply" ? "Apply" : "Update",
      apiVersion: entry["apiVersion"],
      subresource: typeof entry["subresource"] === "string" ? entry["subresource"] : "",
    };
    const time = typeof entry["time"] === "string" ? entry["time"] : undefined;
    ownerships.set(writerKey(writer), { writer, set: decodeFieldSet(entry["fieldsV1"]), time });
  }
  return ownerships;
}

export function encodeOwnerships(ownerships: Ownerships): ManagedFieldsEntry[] {
  const entries = [...ownerships.values()].map(
    ({ writer, set, time }): ManagedFieldsEntry => ({
      manager: writer.manager,
      operation: writer.operation,
      apiVersion: writer.apiVersion,
      ...(time === undefined ? {} : { time }),
      fieldsType: "FieldsV1",
      fieldsV1: encodeFieldSet(set),
      ...(writer.subresource === "" ? {} : { subresource: writer.subresource }),
    }),
  );
  const sortKey = (entry: ManagedFieldsEntry) => `${entry.operation} ${entry.time ?? ""} ${entry.manager}`;
  return entries.sort((left, right) => (sortKey(left) < sortKey(right) ? -1 : 1));
}

/** The object as ownership looks at it: without the record of ownership itself. */
export function withoutManagedFields(object: JsonObject): JsonObject {
  const { managedFields: _, ...metadata } = asJsonObject(object["metadata"]);
  return { ...object, metadata };
}

/** Ownership after an ordinary write: the writer takes what it changed or added, and what is gone has no owner. */
export function ownershipsAfterUpdate(
  schema: Schema,
  ownerships: Ownerships,
  before: JsonObject,
  after: JsonObject,
  writer: Writer,
  time: string,
): Ownerships {
  const { added, modified, removed } = compareFields(schema, withoutManagedFields(before), withoutManagedFields(after));
  const taken = ownable(unionSets(added, modified));
  const own = ownerships.get(writerKey(writer))?.set ?? EMPTY_SET;
  const result = withoutFields(ownerships, unionSets(taken, removed));
  result.set(writerKey(writer), { writer, set: unionSets(differenceOfSets(own, removed), taken), time });
  return settled(ownerships, result, time);
}

/** Every owner without these fields. */
function withoutFields(ownerships: Ownerships, fields: FieldSet): Map<string, Ownership> {
  const result = new Map<string, Ownership>();
  for (const [key, each] of ownerships) result.set(key, { ...each, set: differenceOfSets(each.set, fields) });
  return result;
}

/** Drops owners of nothing; an owner whose fields are the same as before keeps its time, any other gets the new one. */
export function settled(before: Ownerships, after: Ownerships, time: string): Ownerships {
  const result = new Map<string, Ownership>();
  for (const [key, each] of after) {
    if (isEmptySet(each.set)) continue;
    const old = before.get(key);
    const unchanged = old !== undefined && equalSets(old.set, each.set);
    result.set(key, { ...each, time: unchanged ? old.time : time });
  }
  return result;
}
