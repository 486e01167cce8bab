// Merging a server-side-apply configuration into an object, and taking fields out of it again. Pure.

import type { Schema } from "../schema/schema.ts";
import { isJsonObject, type JsonObject } from "../store/json.ts";
import type { FieldSet } from "./field-set.ts";
import { type Part, partsByElement, partsOf } from "./field-structure.ts";

/** The live value with everything that the configuration states laid over it. Neither is changed. */
export function mergeFields(schema: Schema | undefined, live: unknown, configuration: unknown): unknown {
  if (live === undefined) return configuration;
  const liveParts = partsByElement(schema, live);
  const statedParts = partsByElement(schema, configuration);
  if (liveParts === undefined || statedParts === undefined) return configuration;
  if (Array.isArray(live) !== Array.isArray(configuration)) return configuration;
  if (Array.isArray(configuration)) return mergeLists(liveParts, statedParts);
  const merged: JsonObject = { ...(live as JsonObject) };
  for (const { element, schema: at, value } of statedParts.values()) {
    const key = element.slice(2);
    merged[key] = mergeFields(at, merged[key], value);
  }
  return merged;
}

// The configuration's order holds among its items; items that only the live list has stay where they are relative to
// the stated ones around them.
function mergeLists(live: ReadonlyMap<string, Part>, stated: ReadonlyMap<string, Part>): unknown[] {
  const merged: unknown[] = [];
  const done = new Set<string>();
  const rest = [...stated.values()];
  const takeStated = (part: Part): void => {
    done.add(part.element);
    merged.push(mergeFields(part.schema, live.get(part.element)?.value, part.value));
  };
  for (const part of live.values()) {
    if (!stated.has(part.element)) {
      merged.push(part.value);
      continue;
    }
    while (!done.has(part.element)) takeStated(rest.shift() as Part);
  }
  for (const part of rest) takeStated(part);
  return merged;
}

/** The value without the members of a set; a container that becomes empty by that goes, too. Undefined: nothing is left. */
export function removeFields(schema: Schema | undefined, value: unknown, set: FieldSet): unknown {
  if (set.children.size === 0) return value;
  const parts = partsOf(schema, value);
  if (parts === undefined) return value;
  const kept: [string, unknown][] = [];
  for (const part of parts) {
    const inner = set.children.get(part.element);
    if (inner?.member) continue;
    const rest = inner === undefined ? part.value : removeFields(part.schema, part.value, inner);
    if (rest !== undefined) kept.push([part.element, rest]);
  }
  if (kept.length === 0 && parts.length > 0) return undefined;
  if (!isJsonObject(value)) return kept.map(([, item]) => item);
  return Object.fromEntries(kept.map(([element, item]) => [element.slice(2), item]));
}
