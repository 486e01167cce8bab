// An object as the store keeps and serves it. It is immutable: writers build a new one.
import type { JsonObject } from "./json.ts";

export interface ManagedFieldsEntry {
  manager: string;
  operation: "Apply" | "Update";
  apiVersion: string;
  time?: string;
  fieldsType: "FieldsV1";
  fieldsV1: JsonObject;
  subresource?: string;
}

export interface StoredOwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

export interface StoredMetadata extends JsonObject {
  name: string;
  namespace?: string;
  uid: string;
  resourceVersion: string;
  generation?: number;
  creationTimestamp: string;
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: StoredOwnerReference[];
  managedFields?: ManagedFieldsEntry[];
}

export interface StoredObject extends JsonObject {
  apiVersion: string;
  kind: string;
  metadata: StoredMetadata;
}

/** Names an object within its kind; the namespace of a cluster-scoped one is empty. */
export interface ObjectAddress {
  readonly namespace: string;
  readonly name: string;
}

/** Sorts as the API lists: by namespace, then by name. A NUL cannot be part of either. */
export function addressKey(address: ObjectAddress): string {
  return `${address.namespace}\u0000${address.name}`;
}

export function addressOf(object: StoredObject): ObjectAddress {
  return { namespace: object.metadata.namespace ?? "", name: object.metadata.name };
}

const encoded = new WeakMap<StoredObject, string>();

/** The object's JSON text, made once per stored object: every reader and watcher gets the same text. */
export function encodeObject(object: StoredObject): string {
  let text = encoded.get(object);
  if (text === undefined) {
    text = JSON.stringify(object);
    encoded.set(object, text);
  }
  return text;
}
