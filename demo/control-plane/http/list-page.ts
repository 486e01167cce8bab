// One page of a list: sorted, selected, and consistent. A continue token names a version and where to go on, and the
// following pages show the objects as they were at that version.

import type { ResourceKind } from "../kinds/resource-kind.ts";
import type { FieldSelector } from "../lists/field-selector.ts";
import type { ObjectPredicate } from "../lists/label-selector.ts";
import { asJsonObject } from "../store/json.ts";
import type { ObjectStore } from "../store/store.ts";
import { addressKey, addressOf, type StoredObject } from "../store/stored-object.ts";
import { ApiError, badRequest, expired } from "./api-error.ts";

export interface ListRequest {
  readonly namespace: string;
  readonly labels: ObjectPredicate;
  readonly fields: FieldSelector;
  /** 0: everything. */
  readonly limit: number;
  readonly continueToken: string;
  readonly resourceVersion: string;
  readonly resourceVersionMatch: string;
}

export interface ListPage {
  readonly items: readonly StoredObject[];
  readonly resourceVersion: string;
  readonly continueToken: string;
  readonly remaining: number;
}

interface Position {
  readonly version: number;
  readonly after: string;
}

/** Throws 400 on a bad token or version, 410 on one that is forgotten, 504 on one that is not reached yet. */
export function listPage(store: ObjectStore, kind: ResourceKind, request: ListRequest): ListPage {
  const position = startPosition(store, request);
  const found = objectsAt(store, kind, request, position.version).filter(
    (object) =>
      request.labels(object) && request.fields.matches(object) && addressKey(addressOf(object)) > position.after,
  );
  found.sort((left, right) => compareText(addressKey(addressOf(left)), addressKey(addressOf(right))));
  const items = request.limit > 0 ? found.slice(0, request.limit) : found;
  const remaining = found.length - items.length;
  const last = items.at(-1);
  const next =
    remaining > 0 && last ? encodeToken({ version: position.version, after: addressKey(addressOf(last)) }) : "";
  return { items, resourceVersion: String(position.version), continueToken: next, remaining };
}

function compareText(left: string, right: string): number {
  return left < right ? -1 : left > right ? 1 : 0;
}

function objectsAt(store: ObjectStore, kind: ResourceKind, request: ListRequest, version: number): StoredObject[] {
  const { namespace } = request;
  if (version === store.version) {
    const { name } = request.fields;
    if (name === undefined || (kind.namespaced && namespace === "")) return [...store.all(kind, namespace)];
    const object = store.get(kind, { namespace, name });
    return object === undefined ? [] : [object];
  }
  const objects = store.history(kind).rewind(store.all(kind, ""), version);
  if (objects === undefined) throw expired(expiredMessage(request));
  return namespace === "" ? objects : objects.filter((object) => object.metadata.namespace === namespace);
}

function expiredMessage(request: ListRequest): string {
  return request.continueToken === ""
    ? `The resourceVersion for the provided list is too old: ${request.resourceVersion}.`
    : "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.";
}

function startPosition(store: ObjectStore, request: ListRequest): Position {
  if (request.continueToken !== "") return continuedPosition(store, request);
  const version = parseVersion(request.resourceVersion);
  if (version > store.version) throw tooLarge(version, store.version);
  const exact = request.resourceVersionMatch === "Exact" && version !== 0;
  return { version: exact ? version : store.version, after: "" };
}

function continuedPosition(store: ObjectStore, request: ListRequest): Position {
  if (request.resourceVersion !== "" && request.resourceVersion !== "0")
    throw badRequest("specifying resource version is not allowed when using continue");
  const position = decodeToken(request.continueToken);
  if (position.version > store.version) throw badRequest("continue key is not valid: its version is not reached yet");
  return position;
}

/** A resourceVersion parameter as a number, 0 when absent; throws 400 for any other text. */
export function parseVersion(text: string): number {
  if (text === "") return 0;
  const version = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(version))
    throw badRequest(`Invalid value: "${text}": resourceVersion must be an unsigned integer that this server gave out`);
  return version;
}

function tooLarge(wanted: number, current: number): ApiError {
  const message = `Timeout: Too large resource version: ${wanted}, current: ${current}`;
  const causes = [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }];
  return new ApiError(504, "Timeout", message, { causes, retryAfterSeconds: 1 });
}

function encodeToken(position: Position): string {
  const token = { v: "meta.k8s.io/v1", rv: position.version, start: position.after };
  return Buffer.from(JSON.stringify(token)).toString("base64url");
}

function decodeToken(token: string): Position {
  try {
    const { v, rv, start } = asJsonObject(JSON.parse(Buffer.from(token, "base64url").toString("utf8")));
    if (v === "meta.k8s.io/v1" && typeof rv === "number" && typeof start === "string")
      return { version: rv, after: start };
  } catch {
    // Falls through to the one answer for every unreadable token.
  }
  throw badRequest("continue key is not valid: this server did not issue it");
}
