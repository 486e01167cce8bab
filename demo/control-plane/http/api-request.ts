// One request as the endpoints see it: what it names, its parameters, and how it is answered.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ResourceKind } from "../kinds/resource-kind.ts";
import { parseFieldSelector } from "../lists/field-selector.ts";
import { parseLabelSelector } from "../lists/label-selector.ts";
import type { IncludeObject } from "../lists/table.ts";
import { badRequest } from "./api-error.ts";
import type { ListRequest } from "./list-page.ts";
import type { FieldValidation, WriteRequest } from "./write-request.ts";

export interface ApiRequest {
  readonly incoming: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
  readonly kind: ResourceKind;
  readonly namespace: string;
  readonly name: string;
  readonly subresource: "" | "status";
}

const MANAGER_CHARACTERS_MAX = 128;

/** Throws 400 on a parameter that cannot be read. */
export function writeRequestOf(request: ApiRequest): WriteRequest {
  const { kind, namespace, name, subresource, query } = request;
  return {
    kind,
    address: { namespace, name },
    subresource,
    fieldManager: fieldManagerOf(request),
    fieldValidation: oneOf(query, "fieldValidation", ["Strict", "Warn", "Ignore"], "Warn") as FieldValidation,
    dryRun: isDryRun(query),
    warnings: [],
  };
}

export function isDryRun(query: URLSearchParams): boolean {
  return oneOf(query, "dryRun", ["All", ""], "") === "All";
}

export function includeObjectOf(query: URLSearchParams): IncludeObject {
  return oneOf(query, "includeObject", ["None", "Metadata", "Object"], "Metadata") as IncludeObject;
}

/** Throws 400 on a selector, limit or version that cannot be read. */
export function listRequestOf({ kind, namespace, name, query }: ApiRequest): ListRequest {
  const limit = integerOf(query, "limit");
  const ofName = name === "" ? [] : [`metadata.name=${name}`];
  return {
    namespace,
    labels: parseLabelSelector(query.get("labelSelector") ?? ""),
    fields: parseFieldSelector([...ofName, ...query.getAll("fieldSelector")].join(","), kind),
    limit,
    continueToken: query.get("continue") ?? "",
    resourceVersion: query.get("resourceVersion") ?? "",
    resourceVersionMatch: oneOf(query, "resourceVersionMatch", ["Exact", "NotOlderThan", ""], ""),
  };
}

/** A parameter that is a number of at least 0; 0 when absent. */
export function integerOf(query: URLSearchParams, name: string): number {
  const text = query.get(name) ?? "0";
  if (!/^\d{1,15}$/.test(text)) throw badRequest(`${name} must be a number of at least 0, not "${text}"`);
  return Number(text);
}

export function isTrue(query: URLSearchParams, name: string): boolean {
  const text = query.get(name);
  return text !== null && text !== "0" && text.toLowerCase() !== "false";
}

function oneOf(query: URLSearchParams, name: string, allowed: readonly string[], absent: string): string {
  const value = query.get(name) ?? absent;
  if (!allowed.includes(value))
    throw badRequest(`${name} must be one of ${allowed.filter(Boolean).join(", ")}, not "${value}"`);
  return value;
}

// Without a name for itself, a client is known by its program's.
function fieldManagerOf({ query, incoming }: ApiRequest): string {
  const named = query.get("fieldManager");
  if (named && named.length > MANAGER_CHARACTERS_MAX)
    throw badRequest(`fieldManager has ${named.length} characters; ${MANAGER_CHARACTERS_MAX} is the most`);
  const agent = (incoming.headers["user-agent"] ?? "unknown").split("/")[0] ?? "unknown";
  return named || agent.slice(0, MANAGER_CHARACTERS_MAX);
}
