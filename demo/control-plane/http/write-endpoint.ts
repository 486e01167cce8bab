// POST, PUT, PATCH and DELETE, from the body to the answer.

import { jsonPatch } from "../apply/json-patch.ts";
import { mergePatch } from "../apply/merge-patch.ts";
import { strategicMergePatch } from "../apply/strategic-merge-patch.ts";
import { apiVersionOf } from "../kinds/resource-kind.ts";
import { asJsonObject, type JsonObject } from "../store/json.ts";
import { type DeletionOptions, deleteObject, type PropagationPolicy } from "../store/object-deletion.ts";
import { type ObjectWriter, timestamp } from "../store/object-writer.ts";
import type { ObjectStore } from "../store/store.ts";
import { addressOf } from "../store/stored-object.ts";
import { applyWithoutManager, badRequest, successStatus, unsupportedMediaType } from "./api-error.ts";
import { type ApiRequest, isDryRun, isTrue, listRequestOf, writeRequestOf } from "./api-request.ts";
import { sendJson } from "./http-answer.ts";
import { listPage } from "./list-page.ts";
import { bareMediaType } from "./media-type.ts";
import { sendObject } from "./read-endpoint.ts";
import { decodeApplyPatch, decodeObject, readBody } from "./request-body.ts";

const APPLY = "application/apply-patch+yaml";
const JSON_PATCH = "application/json-patch+json";
const MERGE = "application/merge-patch+json";
const STRATEGIC = "application/strategic-merge-patch+json";

export async function createObject(request: ApiRequest, writer: ObjectWriter): Promise<void> {
  const write = writeRequestOf(request);
  const input = decodeObject(await readBody(request.incoming), request.incoming.headers["content-type"]);
  sendObject(request, 201, writer.create(write, input), write.warnings);
}

export async function replaceObject(request: ApiRequest, writer: ObjectWriter): Promise<void> {
  const write = writeRequestOf(request);
  const input = decodeObject(await readBody(request.incoming), request.incoming.headers["content-type"]);
  sendObject(request, 200, writer.replace(write, input), write.warnings);
}

/** Throws 415 for a patch that the kind does not take: strategic merge patches need a built-in kind. */
export async function patchObject(request: ApiRequest, writer: ObjectWriter): Promise<void> {
  const { kind, query, incoming } = request;
  const write = writeRequestOf(request);
  const type = bareMediaType(incoming.headers["content-type"]);
  const body = await readBody(incoming);
  if (type === APPLY) {
    if (!query.get("fieldManager")) throw applyWithoutManager();
    const { object, created } = writer.apply(write, decodeApplyPatch(body), isTrue(query, "force"));
    sendObject(request, created ? 201 : 200, object, write.warnings);
    return;
  }
  if (query.has("force")) throw badRequest("force is only allowed for an apply patch");
  const patch = patchFunction(type, kind.custom, request);
  const content = parsePatch(body);
  sendObject(
    request,
    200,
    writer.patch(write, (live) => patch(live, content)),
    write.warnings,
  );
}

type PatchFunction = (live: JsonObject, patch: unknown) => unknown;

function patchFunction(type: string, custom: boolean, { kind }: ApiRequest): PatchFunction {
  if (type === MERGE) return mergePatch;
  if (type === JSON_PATCH) return jsonPatch;
  if (type === STRATEGIC && !custom) return (live, patch) => strategicMergePatch(kind.schema, live, patch);
  throw unsupportedMediaType(type, [JSON_PATCH, MERGE, ...(custom ? [] : [STRATEGIC]), APPLY]);
}

function parsePatch(body: string): unknown {
  try {
    return JSON.parse(body) as unknown;
  } catch (error) {
    throw badRequest(`the patch is not JSON: ${(error as Error).message}`);
  }
}

export async function deleteOne(request: ApiRequest, store: ObjectStore): Promise<void> {
  const { kind, namespace, name, response } = request;
  const options = await deletionOptions(request);
  const { object, gone } = deleteObject(store, kind, { namespace, name }, options, timestamp(Date.now()));
  if (gone) sendJson(response, 200, JSON.stringify(successStatus(kind, name, object.metadata.uid)));
  else sendObject(request, 200, object);
}

export async function deleteCollection(request: ApiRequest, store: ObjectStore): Promise<void> {
  const { kind, response } = request;
  const options = await deletionOptions(request);
  const { items, resourceVersion } = listPage(store, kind, listRequestOf(request));
  const now = timestamp(Date.now());
  const deleted = items.map((object) => deleteObject(store, kind, addressOf(object), options, now).object);
  const list = { kind: kind.listKind, apiVersion: apiVersionOf(kind), metadata: { resourceVersion }, items: deleted };
  sendJson(response, 200, JSON.stringify(list));
}

const POLICIES = ["Background", "Foreground", "Orphan"];

// Options come in the body or, for clients that send none, as parameters.
async function deletionOptions({ incoming, query }: ApiRequest): Promise<DeletionOptions> {
  const body = await readBody(incoming);
  const options = body === "" ? {} : decodeObject(body, incoming.headers["content-type"]);
  const policy = options["propagationPolicy"] ?? query.get("propagationPolicy") ?? "Background";
  if (!POLICIES.includes(String(policy)))
    throw badRequest(`propagationPolicy must be one of ${POLICIES.join(", ")}, not "${String(policy)}"`);
  const { uid, resourceVersion } = asJsonObject(options["preconditions"]);
  const dryRun = Array.isArray(options["dryRun"]) && options["dryRun"].includes("All");
  return {
    ...(typeof uid === "string" ? { uid } : {}),
    ...(typeof resourceVersion === "string" ? { resourceVersion } : {}),
    propagationPolicy: policy as PropagationPolicy,
    dryRun: dryRun || isDryRun(query),
  };
}
