// Every write of the API: create, replace, patch, apply. Each runs from the read to the store without a break, so what
// it checked still holds when it stores.

import { FieldStructureError } from "../apply/field-structure.ts";
import {
  decodeOwnerships,
  encodeOwnerships,
  type Ownerships,
  ownershipsAfterUpdate,
  type Writer,
  withoutManagedFields,
} from "../apply/managed-fields.ts";
import { applyConfiguration } from "../apply/server-side-apply.ts";
import { ApiError, alreadyExists, badRequest, conflict, forbidden, notFound } from "../http/api-error.ts";
import type { WriteRequest } from "../http/write-request.ts";
import { builtInKind } from "../kinds/built-in-kinds.ts";
import { resizeRefusal } from "../kinds/claim-resize.ts";
import { apiVersionOf } from "../kinds/resource-kind.ts";
import { pruneUnknownFields } from "../schema/schema-pruning.ts";
import { changedObject } from "./changed-object.ts";
import { asJsonObject, cloneJson, equalJson, isJsonObject, type JsonObject } from "./json.ts";
import { newObject } from "./new-object.ts";
import type { BodyForm } from "./object-admission.ts";
import { isLastBreath } from "./object-deletion.ts";
import type { ObjectStore } from "./store.ts";
import { addressOf, type StoredMetadata, type StoredObject } from "./stored-object.ts";

/** What was written, and whether it is new. */
export interface Written {
  readonly object: StoredObject;
  readonly created: boolean;
}

const NAMESPACES = builtInKind("Namespace");

export class ObjectWriter {
  readonly #store: ObjectStore;
  readonly #nowMs: () => number;

  constructor(store: ObjectStore, nowMs: () => number) {
    this.#store = store;
    this.#nowMs = nowMs;
  }

  /** Throws ApiError: 400, 403 in a namespace that is being deleted, 404 without it, 409 when the name is taken, 422. */
  create(request: WriteRequest, input: JsonObject): StoredObject {
    return this.#create(request, input, undefined, "object");
  }

  /** Throws ApiError: 400, 404, 409 when the object has moved on, 422. */
  replace(request: WriteRequest, input: JsonObject): StoredObject {
    return this.#change(request, this.#live(request), input, undefined, "object");
  }

  /** Changes the live object by a patch function. Throws ApiError as replace does. */
  patch(request: WriteRequest, patch: (live: JsonObject) => unknown): StoredObject {
    const live = this.#live(request);
    const patched = patch(live);
    if (!isJsonObject(patched)) throw badRequest("the patch leaves no object");
    return this.#change(request, live, cloneJson(patched), undefined, "patch");
  }

  /** Server-side apply; creates the object when it is not there. Throws ApiError, 409 on conflicts with other managers. */
  apply(request: WriteRequest, input: JsonObject, force: boolean): Written {
    const { kind, address, subresource } = request;
    const live = this.#store.get(kind, address);
    if (live === undefined && subresource !== "") throw notFound(kind, address.name);
    const metadata = asJsonObject(input["metadata"]);
    if (live === undefined && (metadata["uid"] || metadata["resourceVersion"]))
      throw goneBeforeApply(request, metadata);
    const configuration = this.#configuration(request, input);
    const before = live ?? emptyObject(request);
    const { object, ownerships } = mergeConfiguration(request, before, configuration, force, this.#now());
    // The configuration may name the version and the object that it was made for.
    const named = { resourceVersion: metadata["resourceVersion"], uid: metadata["uid"] };
    const merged = cloneJson({ ...object, metadata: withDefined(asJsonObject(object["metadata"]), named) });
    if (live !== undefined) return { object: this.#change(request, live, merged, ownerships, "patch"), created: false };
    return { object: this.#create(request, merged, ownerships, "patch"), created: true };
  }

  // The part of a configuration that its path may write.
  #configuration(request: WriteRequest, input: JsonObject): JsonObject {
    const { kind, address, subresource } = request;
    const metadata = asJsonObject(input["metadata"]);
    if (metadata["managedFields"] !== undefined) throw badRequest("metadata.managedFields must be nil");
    const name = metadata["name"] ?? address.name;
    if (name !== address.name)
      throw badRequest(`the name of the object (${name}) does not match the name on the URL (${address.name})`);
    const unknown = pruneUnknownFields(kind.schema, cloneJson(input));
    if (unknown.length > 0) throw undeclaredFields(request, unknown);
    const { status, ...rest } = withoutNulls(input) as JsonObject;
    const { resourceVersion: _version, uid: _uid, ...stated } = asJsonObject(rest["metadata"]);
    if (subresource === "")
      return { ...rest, metadata: { ...stated, name }, ...(kind.hasStatus ? {} : withDefined({}, { status })) };
    return { apiVersion: rest["apiVersion"], kind: rest["kind"], metadata: { name }, ...withDefined({}, { status }) };
  }

  #create(request: WriteRequest, input: JsonObject, ownerships: Ownerships | undefined, form: BodyForm): StoredObject {
    const { kind } = request;
    this.#checkNamespace(request);
    const now = this.#now();
    const object = newObject(request, input, now, form);
    const address = { namespace: object.metadata.namespace ?? "", name: object.metadata.name };
    if (this.#store.get(kind, address) !== undefined) throw alreadyExists(kind, address.name);
    const before = emptyObject(request);
    // A status that stands there from the start is a default of the schema, which no writer owns.
    const { status: _status, ...specification } = object;
    const stated = kind.custom && kind.hasStatus ? specification : object;
    const owners = ownerships ?? ownershipsAfterUpdate(kind.schema, new Map(), before, stated, updater(request), now);
    setManagedFields(object.metadata, owners);
    return request.dryRun ? object : this.#store.put(kind, address, object);
  }

  #change(
    request: WriteRequest,
    live: StoredObject,
    input: JsonObject,
    ownerships: Ownerships | undefined,
    form: BodyForm,
  ): StoredObject {
    const { kind } = request;
    const now = this.#now();
    const object = changedObject(request, live, input, now, form);
    const refusal = resizeRefusal(this.#store, request, live, object);
    if (refusal !== undefined) throw refusal;
    setManagedFields(object.metadata, ownerships ?? updatedOwnerships(request, live, object, now));
    if (equalJson(object, live)) return live;
    if (request.dryRun) return object;
    if (isLastBreath(kind, object)) return this.#store.remove(kind, addressOf(live), object);
    return this.#store.put(kind, addressOf(live), object);
  }

  #live({ kind, address }: WriteRequest): StoredObject {
    const live = this.#store.get(kind, address);
    if (live === undefined) throw notFound(kind, address.name);
    return live;
  }

  #checkNamespace({ kind, address }: WriteRequest): void {
    if (!kind.namespaced) return;
    const namespace = this.#store.get(NAMESPACES, { namespace: "", name: address.namespace });
    if (namespace === undefined) throw notFound(NAMESPACES, address.namespace);
    if (namespace.metadata.deletionTimestamp === undefined) return;
    const why = `unable to create new content in namespace ${address.namespace} because it is being terminated`;
    const message = `namespace ${address.namespace} is being terminated`;
    throw forbidden(kind, address.name, why, [
      { reason: "NamespaceTerminating", message, field: "metadata.namespace" },
    ]);
  }

  #now(): string {
    return timestamp(this.#nowMs());
  }
}

/** metav1.Time: whole seconds. */
export function timestamp(nowMs: number): string {
  return new Date(nowMs).toISOString().replace(/\.\d+Z$/, "Z");
}

function emptyObject({ kind, address }: WriteRequest): StoredObject {
  return { apiVersion: apiVersionOf(kind), kind: kind.kind, metadata: { name: address.name } as StoredMetadata };
}

function updater(request: WriteRequest): Writer {
  const { fieldManager, kind, subresource } = request;
  return { manager: fieldManager, operation: "Update", apiVersion: apiVersionOf(kind), subresource };
}

function setManagedFields(metadata: StoredMetadata, ownerships: Ownerships): void {
  const entries = encodeOwnerships(ownerships);
  if (entries.length > 0) metadata.managedFields = entries;
  else delete metadata.managedFields;
}

// A writer may hand over ownership by writing managedFields itself; leaving them out changes nothing.
function updatedOwnerships(request: WriteRequest, live: StoredObject, object: StoredObject, now: string): Ownerships {
  const given = object.metadata.managedFields;
  const known = decodeOwnerships(given === undefined || given.length === 0 ? live.metadata.managedFields : given);
  return ownershipsAfterUpdate(request.kind.schema, known, live, object, updater(request), now);
}

function mergeConfiguration(
  request: WriteRequest,
  before: StoredObject,
  configuration: JsonObject,
  force: boolean,
  now: string,
) {
  const { kind, fieldManager, subresource } = request;
  const writer: Writer = { manager: fieldManager, operation: "Apply", apiVersion: apiVersionOf(kind), subresource };
  const known = decodeOwnerships(before.metadata.managedFields);
  try {
    return applyConfiguration(kind.schema, withoutManagedFields(before), known, configuration, writer, force, now);
  } catch (error) {
    if (error instanceof FieldStructureError) throw typedPatchError(request, error.message);
    throw error;
  }
}

function undeclaredFields(request: WriteRequest, unknown: readonly string[]): ApiError {
  return typedPatchError(request, unknown.map((field) => `.${field}: field not declared in schema`).join("\n"));
}

// kube-apiserver answers these as errors of its own, without a reason.
function typedPatchError({ kind, address }: WriteRequest, why: string): ApiError {
  const subject = `${address.namespace}/${address.name}; ${apiVersionOf(kind)}, Kind=${kind.kind}`;
  return new ApiError(500, "", `failed to create typed patch object (${subject}): ${why}`);
}

function goneBeforeApply({ kind, address }: WriteRequest, metadata: JsonObject): ApiError {
  const what = metadata["uid"] ? `uid ${metadata["uid"]}` : `resourceVersion ${metadata["resourceVersion"]}`;
  return conflict(kind, address.name, `the provided object specified ${what}, and no existing object was found`);
}

function withDefined(object: JsonObject, fields: JsonObject): JsonObject {
  return { ...object, ...Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) };
}

// A null states nothing.
function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== null)
      .map(([key, item]) => [key, withoutNulls(item)]),
  );
}
