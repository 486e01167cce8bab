// From a request's path and method to the endpoint that answers it.
import type { IncomingMessage, ServerResponse } from "node:http";
import { apiGroup, coreVersions, groupList, resourceList, VERSION_ANSWER } from "../kinds/discovery.ts";
import type { KindRegistry } from "../kinds/kind-registry.ts";
import { openApiDocument, openApiIndex } from "../schema/openapi.ts";
import type { JsonObject } from "../store/json.ts";
import type { ObjectWriter } from "../store/object-writer.ts";
import type { ObjectStore } from "../store/store.ts";
import { methodNotAllowed, unknownPath } from "./api-error.ts";
import { type ApiRequest, isTrue } from "./api-request.ts";
import { sendJson, sendText } from "./http-answer.ts";
import { getObject, listObjects } from "./read-endpoint.ts";
import { parseResourcePath } from "./request-path.ts";
import { watchObjects } from "./watch-endpoint.ts";
import { createObject, deleteCollection, deleteOne, patchObject, replaceObject } from "./write-endpoint.ts";

const HEALTH_PATHS = ["/healthz", "/readyz", "/livez"];

export interface Parts {
  readonly store: ObjectStore;
  readonly registry: KindRegistry;
  readonly writer: ObjectWriter;
}

/** The probes, which kube-apiserver answers to all, too. */
export function isOpenToAll({ url = "/" }: Pick<IncomingMessage, "url">): boolean {
  return HEALTH_PATHS.includes(url.replace(/\?.*$/, ""));
}

/** Answers one request. Throws ApiError for what is refused before an answer has begun. */
export async function route(parts: Parts, incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(incoming.url ?? "/", "http://127.0.0.1");
  const { pathname } = url;
  if (HEALTH_PATHS.includes(pathname)) {
    sendText(response, 200, "ok");
    return;
  }
  const description = describe(parts.registry, pathname, incoming);
  if (description !== undefined) {
    if (incoming.method !== "GET") throw methodNotAllowed();
    sendJson(response, 200, JSON.stringify(description));
    return;
  }
  const request = resourceRequest(parts.registry, url, incoming, response);
  if (request === undefined) throw unknownPath();
  if (request.name === "") await routeCollection(parts, request);
  else await routeObject(parts, request);
}

function describe(registry: KindRegistry, pathname: string, incoming: IncomingMessage): JsonObject | undefined {
  const kinds = registry.all();
  const [root, first, second, ...rest] = pathname.split("/").filter((part) => part !== "");
  if (root === "version" && first === undefined) return VERSION_ANSWER;
  if (root === "openapi" && first === "v3")
    return second === undefined ? openApiIndex(kinds) : openApiDocument(kinds, [second, ...rest].join("/"));
  if (rest.length > 0) return undefined;
  if (root === "api" && first === undefined) return coreVersions(incoming.headers.host ?? "");
  if (root === "api" && first !== undefined && second === undefined) return resourceList(kinds, "", first);
  if (root !== "apis") return undefined;
  if (first === undefined) return groupList(kinds);
  return second === undefined ? apiGroup(kinds, first) : resourceList(kinds, first, second);
}

function resourceRequest(
  registry: KindRegistry,
  url: URL,
  incoming: IncomingMessage,
  response: ServerResponse,
): ApiRequest | undefined {
  const path = parseResourcePath(url.pathname);
  const kind = path && registry.find(path.group, path.version, path.plural);
  if (path === undefined || kind === undefined) return undefined;
  const { namespace, name, subresource } = path;
  if (namespace !== "" && !kind.namespaced) return undefined;
  if (name !== "" && namespace === "" && kind.namespaced) return undefined;
  if (subresource !== "" && (subresource !== "status" || !kind.hasStatus)) return undefined;
  const status = subresource === "status" ? "status" : "";
  return { incoming, response, query: url.searchParams, kind, namespace, name, subresource: status };
}

async function routeCollection({ store, writer }: Parts, request: ApiRequest): Promise<void> {
  const everywhere = request.kind.namespaced && request.namespace === "";
  switch (request.incoming.method) {
    case "GET":
      if (isTrue(request.query, "watch")) watchObjects(request, store);
      else listObjects(request, store);
      return;
    case "POST":
      if (everywhere) throw methodNotAllowed();
      return createObject(request, writer);
    case "DELETE":
      if (everywhere) throw methodNotAllowed();
      return deleteCollection(request, store);
    default:
      throw methodNotAllowed();
  }
}

async function routeObject({ store, writer }: Parts, request: ApiRequest): Promise<void> {
  switch (request.incoming.method) {
    case "GET":
      if (isTrue(request.query, "watch")) watchObjects(request, store);
      else getObject(request, store);
      return;
    case "PUT":
      return replaceObject(request, writer);
    case "PATCH":
      return patchObject(request, writer);
    case "DELETE":
      if (request.subresource !== "") throw methodNotAllowed();
      return deleteOne(request, store);
    default:
      throw methodNotAllowed();
  }
}
