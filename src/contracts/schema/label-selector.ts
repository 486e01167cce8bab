// Kubernetes' label selector semantics: all terms must hold; an absent selector selects everything.
import type { LabelSelector } from "./schema.ts";

export type Labels = Readonly<Record<string, string>>;

/** One object for all that have none: answers are remembered by it. */
export const NO_LABELS: Labels = Object.freeze({});

export function matchesSelector(selector: LabelSelector | undefined, labels: Labels): boolean {
  if (selector === undefined) return true;
  for (const key in selector.matchLabels) if (labelOf(labels, key) !== selector.matchLabels[key]) return false;
  return (selector.matchExpressions ?? []).every((term) => matchesTerm(term, labels));
}

export type SelectorTerm = NonNullable<LabelSelector["matchExpressions"]>[number];

/** As in a node's selector too, whose further operators compare numbers. */
export function matchesTerm({ key, operator, values = [] }: SelectorTerm, labels: Labels): boolean {
  const value = labelOf(labels, key);
  switch (operator) {
    case "In":
      return value !== undefined && values.includes(value);
    case "NotIn":
      return value === undefined || !values.includes(value);
    case "Exists":
      return value !== undefined;
    case "DoesNotExist":
      return value === undefined;
  }
}

function labelOf(labels: Labels, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}
