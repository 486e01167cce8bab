// OpenAPI v3 documents, one per group version: what kubectl needs to validate, to apply and to explain.
import { createHash } from "node:crypto";
import { apiVersionOf, type ResourceKind } from "../kinds/resource-kind.ts";
import type { JsonObject } from "../store/json.ts";

const GVK = "x-kubernetes-group-version-kind";
const ACTION = "x-kubernetes-action";

/** "api/v1" or "apis/GROUP/VERSION": the path of a group version, and of its document under /openapi/v3. */
function groupVersionPath(kind: ResourceKind): string {
  return kind.group === "" ? `api/${kind.version}` : `apis/${apiVersionOf(kind)}`;
}

/** /openapi/v3: where the documents are. */
export function openApiIndex(kinds: readonly ResourceKind[]): JsonObject {
  const paths: JsonObject = {};
  for (const path of new Set(kinds.map(groupVersionPath))) {
    const document = JSON.stringify(openApiDocument(kinds, path));
    const hash = createHash("sha256").update(document).digest("hex").toUpperCase();
    paths[path] = { serverRelativeURL: `/openapi/v3/${path}?hash=${hash}` };
  }
  return { paths };
}

/** The document of a group version, undefined when it is not served. */
export function openApiDocument(kinds: readonly ResourceKind[], path: string): JsonObject | undefined {
  const served = kinds.filter((kind) => groupVersionPath(kind) === path);
  if (served.length === 0) return undefined;
  return {
    openapi: "3.0.0",
    info: { title: "Kubernetes", version: "v1.33.0" },
    paths: Object.fromEntries(served.flatMap((kind) => kindPaths(kind, path))),
    components: { schemas: Object.fromEntries(served.map((kind) => [schemaName(kind), componentOf(kind)])) },
  };
}

function groupVersionKind({ group, version, kind }: ResourceKind): JsonObject {
  return { group, version, kind };
}

// "dev.tidemark.v1alpha1.Filesystem", and the names that clients know the built-in kinds by.
function schemaName(kind: ResourceKind): string {
  if (!kind.custom)
    return `io.k8s.api.${kind.group === "" ? "core" : kind.group.split(".")[0]}.${kind.version}.${kind.kind}`;
  return [...kind.group.split(".").reverse(), kind.version, kind.kind].join(".");
}

function componentOf(kind: ResourceKind): JsonObject {
  return { ...kind.schema, [GVK]: [groupVersionKind(kind)] };
}

function kindPaths(kind: ResourceKind, path: string): [string, JsonObject][] {
  const base = `/${path}${kind.namespaced ? "/namespaces/{namespace}" : ""}/${kind.plural}`;
  const paths: [string, JsonObject][] = [
    [base, { get: operation(kind, "list"), post: operation(kind, "post") }],
    [
      `${base}/{name}`,
      {
        get: operation(kind, "get"),
        put: operation(kind, "put"),
        patch: operation(kind, "patch"),
        delete: operation(kind, "delete"),
      },
    ],
  ];
  if (kind.hasStatus)
    paths.push([`${base}/{name}/status`, { get: operation(kind, "get"), patch: operation(kind, "patch") }]);
  return paths;
}

const WRITE_PARAMETERS = ["dryRun", "fieldManager", "fieldValidation"].map((name) => queryParameter(name, "string"));

function queryParameter(name: string, type: string): JsonObject {
  return { name, in: "query", schema: { type, uniqueItems: true } };
}

function operation(kind: ResourceKind, action: "list" | "post" | "get" | "put" | "patch" | "delete"): JsonObject {
  const schema = { $ref: `#/components/schemas/${schemaName(kind)}` };
  const answer = { description: "OK", content: { "application/json": { schema } } };
  const writes = action === "post" || action === "put" || action === "patch";
  return {
    operationId: `${action}${kind.kind}`,
    ...(writes ? { parameters: parametersOf(action), requestBody: requestBody(kind, action, schema) } : {}),
    responses: { "200": answer },
    [ACTION]: action,
    [GVK]: groupVersionKind(kind),
  };
}

function parametersOf(action: string): JsonObject[] {
  return action === "patch" ? [...WRITE_PARAMETERS, queryParameter("force", "boolean")] : WRITE_PARAMETERS;
}

function requestBody(kind: ResourceKind, action: string, schema: JsonObject): JsonObject {
  if (action !== "patch") return { content: { "application/json": { schema } } };
  const types = ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
  if (!kind.custom) types.push("application/strategic-merge-patch+json");
  return { content: Object.fromEntries(types.map((type) => [type, { schema: { type: "object" } }])) };
}
