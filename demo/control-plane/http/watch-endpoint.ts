// A watch: the changes of one kind from a version on, as a stream of JSON lines. A client that does not read is cut off
// and resumes by itself.

import { apiVersionOf, type ResourceKind } from "../kinds/resource-kind.ts";
import { type IncludeObject, partialMetadata, tableOf } from "../lists/table.ts";
import type { JsonObject } from "../store/json.ts";
import type { ObjectStore } from "../store/store.ts";
import { encodeObject, type StoredObject } from "../store/stored-object.ts";
import type { Change } from "../store/watch-history.ts";
import { ApiError, expired } from "./api-error.ts";
import { type ApiRequest, includeObjectOf, integerOf, isTrue, listRequestOf } from "./api-request.ts";
import { type ListRequest, listPage, parseVersion } from "./list-page.ts";
import { type AnswerForm, JSON_TYPE, negotiateForm } from "./media-type.ts";

/** Bytes that a watcher may leave unread. */
const UNREAD_LIMIT_BYTES = 16 * 1024 * 1024;
const BOOKMARK_INTERVAL_MS = 10_000;
const DEFAULT_TIMEOUT_SECONDS = 1800;

type EventType = "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";

/** Answers with a watch; it ends at its timeout, with the client, or when the kind is no longer served. */
export function watchObjects(request: ApiRequest, store: ObjectStore): void {
  const { query, kind, incoming, response } = request;
  const selection = listRequestOf(request);
  const form = negotiateForm(incoming.headers.accept);
  const from = parseVersion(selection.resourceVersion);
  const withInitial = initialEventsOf(query, selection);
  const stream = new WatchStream(request, form, includeObjectOf(query));
  const withBookmarks = isTrue(query, "allowWatchBookmarks");
  response.writeHead(200, {
    "content-type": JSON_TYPE,
    "cache-control": "no-cache, private",
    "transfer-encoding": "chunked",
  });
  response.flushHeaders();

  const missed = from === 0 || withInitial ? [] : store.history(kind).after(from);
  if (missed === undefined) {
    stream.sendError(expired(`too old resource version: ${from} (${store.version})`));
    response.end();
    return;
  }
  if (from === 0 || withInitial) sendInitial(stream, store, kind, selection);
  if (withInitial && withBookmarks) stream.sendBookmark(store.version, true);
  const deliver = (change: Change) => stream.sendChange(change, selection);
  missed.forEach(deliver);

  const unsubscribe = store.subscribe(kind, deliver, () => response.end());
  const bookmarks = setInterval(() => {
    if (withBookmarks) stream.sendBookmark(store.version, false);
  }, BOOKMARK_INTERVAL_MS);
  const timeoutSeconds = integerOf(query, "timeoutSeconds") || DEFAULT_TIMEOUT_SECONDS;
  const timeout = setTimeout(() => {
    if (withBookmarks) stream.sendBookmark(store.version, false);
    response.end();
  }, timeoutSeconds * 1000);
  response.once("close", () => {
    unsubscribe();
    clearInterval(bookmarks);
    clearTimeout(timeout);
  });
}

// The streaming form of a list: all objects as ADDED events, then a bookmark that says that they were all.
function initialEventsOf(query: URLSearchParams, { resourceVersionMatch }: ListRequest): boolean {
  if (!query.has("sendInitialEvents")) return false;
  if (resourceVersionMatch === "NotOlderThan") return isTrue(query, "sendInitialEvents");
  const message = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
  const causes = [{ reason: "FieldValueForbidden", message, field: "resourceVersionMatch" }];
  throw new ApiError(
    422,
    "Invalid",
    `ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: ${message}`,
    { causes },
  );
}

function sendInitial(stream: WatchStream, store: ObjectStore, kind: ResourceKind, selection: ListRequest): void {
  const now = { ...selection, limit: 0, continueToken: "", resourceVersion: "", resourceVersionMatch: "" };
  for (const object of listPage(store, kind, now).items) stream.send("ADDED", object);
}

class WatchStream {
  readonly #request: ApiRequest;
  readonly #form: AnswerForm;
  readonly #include: IncludeObject;
  #sentHeaders = false;

  constructor(request: ApiRequest, form: AnswerForm, include: IncludeObject) {
    this.#request = request;
    this.#form = form;
    this.#include = include;
  }

  /** Sends a change as it looks through the selection: an object that leaves it is deleted, one that enters is added. */
  sendChange({ type, object, previous, version }: Change, selection: ListRequest): void {
    const selected = (each: StoredObject | undefined) =>
      each !== undefined &&
      (selection.namespace === "" || each.metadata.namespace === selection.namespace) &&
      selection.labels(each) &&
      selection.fields.matches(each);
    const was = selected(previous);
    const is = type !== "DELETED" && selected(object);
    if (was && is) this.send("MODIFIED", object);
    else if (is) this.send("ADDED", object);
    else if (was && previous !== undefined)
      this.send("DELETED", type === "DELETED" ? object : atVersion(previous, version));
  }

  send(type: EventType, object: StoredObject): void {
    this.#write(type, this.#encode(object));
  }

  sendBookmark(version: number, initialEventsEnd: boolean): void {
    const { kind } = this.#request;
    const annotations = initialEventsEnd ? { "k8s.io/initial-events-end": "true" } : undefined;
    const metadata = { resourceVersion: String(version), creationTimestamp: null, annotations };
    const object: JsonObject = { kind: kind.kind, apiVersion: apiVersionOf(kind), metadata };
    const table = () => tableOf(kind, [], { resourceVersion: String(version) }, this.#tableOptions());
    this.#write("BOOKMARK", JSON.stringify(this.#form === "Table" ? table() : object));
  }

  sendError(error: ApiError): void {
    this.#write("ERROR", JSON.stringify(error.toStatus()));
  }

  #encode(object: StoredObject): string {
    if (this.#form === "Object") return encodeObject(object);
    if (this.#form === "PartialObjectMetadata") return JSON.stringify(partialMetadata(object));
    const { resourceVersion } = object.metadata;
    return JSON.stringify(tableOf(this.#request.kind, [object], { resourceVersion }, this.#tableOptions()));
  }

  #tableOptions() {
    const headers = !this.#sentHeaders;
    this.#sentHeaders = true;
    return { include: this.#include, headers, nowMs: Date.now() };
  }

  #write(type: EventType, object: string): void {
    const { response } = this.#request;
    if (response.writableLength > UNREAD_LIMIT_BYTES) response.destroy();
    else if (!response.writableEnded) response.write(`{"type":"${type}","object":${object}}\n`);
  }
}

function atVersion(object: StoredObject, version: number): StoredObject {
  return { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } };
}
