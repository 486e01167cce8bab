// Strategic merge patch for built-in kinds: a merge patch that knows which lists are merged by key, with the directives
// that kubectl sends. Pure.
import { badRequest } from "../http/api-error.ts";
import type { Schema } from "../schema/schema.ts";
import { equalJson, isJsonObject, type JsonObject } from "../store/json.ts";
import { fieldSchema } from "./field-structure.ts";

const DELETE_FROM_LIST = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER = "$setElementOrder/";
const RETAIN_KEYS = "$retainKeys";
const DIRECTIVE = "$patch";

/** Throws 400 on a directive that is not known. */
export function strategicMergePatch(schema: Schema | undefined, target: unknown, patch: unknown): unknown {
  if (!isJsonObject(patch)) return patch;
  if (patch[DIRECTIVE] === "replace") return withoutDirectives(patch);
  if (patch[DIRECTIVE] === "delete") return undefined;
  if (patch[DIRECTIVE] !== undefined && patch[DIRECTIVE] !== "merge")
    throw badRequest(`unknown patch directive ${JSON.stringify(patch[DIRECTIVE])}`);
  const result: JsonObject = isJsonObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) applyField(schema, result, key, value);
  const retained = patch[RETAIN_KEYS];
  if (Array.isArray(retained)) for (const key of Object.keys(result)) if (!retained.includes(key)) delete result[key];
  return result;
}

function applyField(schema: Schema | undefined, result: JsonObject, key: string, value: unknown): void {
  if (key.startsWith(DELETE_FROM_LIST)) {
    const field = key.slice(DELETE_FROM_LIST.length);
    const gone = Array.isArray(value) ? value : [];
    const list = Array.isArray(result[field]) ? result[field] : [];
    result[field] = list.filter((item) => !gone.some((each) => equalJson(each, item)));
    return;
  }
  if (key === DIRECTIVE || key === RETAIN_KEYS || key.startsWith(ELEMENT_ORDER)) return;
  if (value === null) {
    delete result[key];
    return;
  }
  const at = fieldSchema(schema, key);
  const merged = Array.isArray(value) ? mergeList(at, result[key], value) : strategicMergePatch(at, result[key], value);
  if (merged === undefined) delete result[key];
  else result[key] = merged;
}

function mergeList(schema: Schema | undefined, target: unknown, patch: readonly unknown[]): unknown[] {
  if (schema?.["x-kubernetes-patch-strategy"] !== "merge" || !Array.isArray(target)) return patch.filter(isNoDirective);
  const key = schema["x-kubernetes-patch-merge-key"];
  return key === undefined ? mergeScalars(target, patch) : mergeByKey(schema, key, target, patch);
}

function mergeScalars(target: readonly unknown[], patch: readonly unknown[]): unknown[] {
  return [...target, ...patch.filter((item) => !target.some((each) => equalJson(each, item)))];
}

function mergeByKey(schema: Schema, key: string, target: readonly unknown[], patch: readonly unknown[]): unknown[] {
  if (patch.some((item) => isJsonObject(item) && item[DIRECTIVE] === "replace" && item[key] === undefined))
    return patch.filter(isNoDirective);
  const result = [...target];
  for (const item of patch) {
    if (!isJsonObject(item)) throw badRequest("an item of a list that is merged by key is an object");
    const index = result.findIndex((each) => isJsonObject(each) && equalJson(each[key], item[key]));
    const merged = strategicMergePatch(schema.items, index < 0 ? undefined : result[index], item);
    if (index < 0 && merged !== undefined) result.push(merged);
    else if (index >= 0 && merged === undefined) result.splice(index, 1);
    else if (index >= 0) result[index] = merged;
  }
  return result;
}

function isNoDirective(item: unknown): boolean {
  return !isJsonObject(item) || item[DIRECTIVE] === undefined;
}

function withoutDirectives(patch: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(patch).filter(([key]) => !key.startsWith("$")));
}
