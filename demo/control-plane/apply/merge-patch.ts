// JSON merge patch (RFC 7386). Pure: gives a new value, shares what is unchanged.
import { isJsonObject, type JsonObject } from "../store/json.ts";

export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isJsonObject(patch)) return patch;
  const result: JsonObject = isJsonObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = mergePatch(result[key], value);
  }
  return result;
}
