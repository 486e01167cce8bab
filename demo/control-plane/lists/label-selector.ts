// Label selectors as a query parameter: equality and set terms, all of which must hold.
import { badRequest } from "../http/api-error.ts";
import type { StoredObject } from "../store/stored-object.ts";

export type ObjectPredicate = (object: StoredObject) => boolean;
type LabelTerm = (labels: Readonly<Record<string, string>>) => boolean;

const KEY = "[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?";
const EXISTS = new RegExp(`^(!?)\\s*(${KEY})$`);
const EQUALITY = new RegExp(`^(${KEY})\\s*(==|=|!=)\\s*([-A-Za-z0-9_.]*)$`);
const SET = new RegExp(`^(${KEY})\\s+(in|notin)\\s*\\(([^()]*)\\)$`);
const COMPARISON = new RegExp(`^(${KEY})\\s*([<>])\\s*(\\d+)$`);
const TERM_SEPARATOR = /,(?![^(]*\))/;

/** Throws 400 naming the term that cannot be read. */
export function parseLabelSelector(source: string): ObjectPredicate {
  const terms = source.trim() === "" ? [] : source.split(TERM_SEPARATOR).map((term) => parseTerm(term.trim(), source));
  return (object) => {
    const labels = object.metadata.labels ?? {};
    return terms.every((term) => term(labels));
  };
}

function parseTerm(term: string, source: string): LabelTerm {
  const set = SET.exec(term);
  if (set) return setTerm(set[1] ?? "", set[2] === "in", set[3] ?? "");
  const equality = EQUALITY.exec(term);
  if (equality) return setTerm(equality[1] ?? "", equality[2] !== "!=", equality[3] ?? "");
  const exists = EXISTS.exec(term);
  if (exists) return (labels) => (labels[exists[2] ?? ""] !== undefined) === (exists[1] === "");
  const comparison = COMPARISON.exec(term);
  if (comparison) return comparisonTerm(comparison[1] ?? "", comparison[2] === ">", Number(comparison[3]));
  throw badRequest(`unable to parse requirement "${term}" of the label selector "${source}"`);
}

// An absent label is in no set, so notin and != hold for it.
function setTerm(key: string, within: boolean, list: string): LabelTerm {
  const values = new Set(list.split(",").map((value) => value.trim()));
  return (labels) => {
    const value = labels[key];
    return (value !== undefined && values.has(value)) === within;
  };
}

function comparisonTerm(key: string, greater: boolean, bound: number): LabelTerm {
  return (labels) => {
    const value = labels[key];
    if (value === undefined || !/^-?\d+$/.test(value)) return false;
    return greater ? Number(value) > bound : Number(value) < bound;
  };
}
