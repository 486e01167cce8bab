// GET of one object and of a list, as objects, as a Table or as bare metadata.

import { apiVersionOf, type ResourceKind } from "../kinds/resource-kind.ts";
import { partialMetadata, tableOf } from "../lists/table.ts";
import type { JsonObject } from "../store/json.ts";
import type { ObjectStore } from "../store/store.ts";
import { encodeObject, type StoredObject } from "../store/stored-object.ts";
import { notFound } from "./api-error.ts";
import { type ApiRequest, includeObjectOf, listRequestOf } from "./api-request.ts";
import { sendJson } from "./http-answer.ts";
import { type ListPage, listPage } from "./list-page.ts";
import { type AnswerForm, negotiateForm } from "./media-type.ts";

export function getObject(request: ApiRequest, store: ObjectStore): void {
  const { kind, namespace, name } = request;
  const object = store.get(kind, { namespace, name });
  if (object === undefined) throw notFound(kind, name);
  sendObject(request, 200, object);
}

/** Answers with one object in the form that the client asks for. */
export function sendObject(
  request: ApiRequest,
  code: number,
  object: StoredObject,
  warnings: readonly string[] = [],
): void {
  const { kind, query, incoming, response } = request;
  const form = negotiateForm(incoming.headers.accept);
  sendJson(response, code, encodeForm(form, kind, object, query), warnings);
}

function encodeForm(form: AnswerForm, kind: ResourceKind, object: StoredObject, query: URLSearchParams): string {
  if (form === "Object") return encodeObject(object);
  if (form === "PartialObjectMetadata") return JSON.stringify(partialMetadata(object));
  const { resourceVersion } = object.metadata;
  const options = { include: includeObjectOf(query), headers: true, nowMs: Date.now() };
  return JSON.stringify(tableOf(kind, [object], { resourceVersion }, options));
}

export function listObjects(request: ApiRequest, store: ObjectStore): void {
  const { kind, query, incoming, response } = request;
  const form = negotiateForm(incoming.headers.accept);
  const page = listPage(store, kind, listRequestOf(request));
  const metadata = listMetadata(page);
  if (form === "Table") {
    const options = { include: includeObjectOf(query), headers: true, nowMs: Date.now() };
    sendJson(response, 200, JSON.stringify(tableOf(kind, page.items, metadata, options)));
    return;
  }
  const partial = form === "PartialObjectMetadata";
  const head = partial
    ? { kind: "PartialObjectMetadataList", apiVersion: "meta.k8s.io/v1", metadata }
    : { kind: kind.listKind, apiVersion: apiVersionOf(kind), metadata };
  const items = page.items.map((object) => (partial ? JSON.stringify(partialMetadata(object)) : encodeObject(object)));
  sendJson(response, 200, `${JSON.stringify(head).slice(0, -1)},"items":[${items.join(",")}]}`);
}

function listMetadata({ resourceVersion, continueToken, remaining }: ListPage): JsonObject {
  if (continueToken === "") return { resourceVersion };
  return { resourceVersion, continue: continueToken, remainingItemCount: remaining };
}
