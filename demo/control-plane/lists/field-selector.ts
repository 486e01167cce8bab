// Field selectors as a query parameter: equality on the few fields that a kind offers; any other is refused.

import { fieldAt } from "../apply/json-path.ts";
import { badRequest } from "../http/api-error.ts";
import type { ResourceKind } from "../kinds/resource-kind.ts";
import type { ObjectPredicate } from "./label-selector.ts";

const TERM = /^([^=!]+?)\s*(==|=|!=)\s*(.*)$/;

export interface FieldSelector {
  readonly matches: ObjectPredicate;
  /** Set when the selector names one object: the reader then looks it up. */
  readonly name: string | undefined;
}

/** Throws 400 naming the field that the kind does not offer. */
export function parseFieldSelector(source: string, kind: ResourceKind): FieldSelector {
  const terms = splitTerms(source).map((term) => parseTerm(term, source, kind));
  return {
    matches: (object) => terms.every((term) => (valueOf(object, term.path) === term.value) === term.equal),
    name: terms.find((term) => term.field === "metadata.name" && term.equal)?.value,
  };
}

function parseTerm(term: string, source: string, kind: ResourceKind) {
  const match = TERM.exec(term);
  if (match === null) throw badRequest(`invalid selector: "${source}"; can't understand "${term}"`);
  const [, field = "", operator, value = ""] = match;
  const offered = ["metadata.name", ...(kind.namespaced ? ["metadata.namespace"] : []), ...kind.selectableFields];
  if (!offered.includes(field)) throw badRequest(`field label not supported: ${field}`);
  return { field, path: field.split("."), equal: operator !== "!=", value: unescape(value) };
}

function valueOf(object: unknown, path: readonly string[]): string {
  const value = fieldAt(object, path);
  return value === undefined || value === null ? "" : String(value);
}

// A value escapes comma, equals and backslash with a backslash.
function splitTerms(source: string): string[] {
  const terms = source.match(/(?:[^,\\]|\\.)+/g) ?? [];
  return terms.map((term) => term.trim()).filter((term) => term !== "");
}

function unescape(value: string): string {
  return value.replace(/\\(.)/g, "$1");
}
