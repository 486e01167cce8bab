// Which claims a policy selects. Kubernetes' label selector semantics: all terms must hold; an absent selector selects everything.
import type { LabelSelector } from "../api/schema.ts";

/** A policy's selecting half: the namespaced kind has a namespace, the cluster's a namespaceSelector. */
export interface PolicySelection {
  readonly namespace: string | undefined;
  readonly namespaceSelector: LabelSelector | undefined;
  readonly selector: LabelSelector | undefined;
  /** Undefined: every class. */
  readonly storageClassNames: ReadonlySet<string> | undefined;
  readonly priority: number;
  readonly createdAtMs: number;
}

type Labels = Readonly<Record<string, string>>;

/** The part of a claim that selection looks at. */
export interface SelectableClaim {
  readonly namespace: string;
  readonly labels: Labels;
  readonly storageClassName: string;
}

/** Whether the selection covers a claim. A namespaced policy never reaches beyond its own namespace. */
export function selectsClaim(selection: PolicySelection, claim: SelectableClaim, namespaceLabels: Labels): boolean {
  if (selection.namespace !== undefined && selection.namespace !== claim.namespace) return false;
  if (selection.storageClassNames?.has(claim.storageClassName) === false) return false;
  if (!matchesSelector(selection.namespaceSelector, namespaceLabels)) return false;
  return matchesSelector(selection.selector, claim.labels);
}

export function matchesSelector(selector: LabelSelector | undefined, labels: Labels): boolean {
  if (selector === undefined) return true;
  for (const key in selector.matchLabels) if (labelOf(labels, key) !== selector.matchLabels[key]) return false;
  return (selector.matchExpressions ?? []).every((term) => matchesTerm(term, labels));
}

type SelectorTerm = NonNullable<LabelSelector["matchExpressions"]>[number];

function matchesTerm({ key, operator, values = [] }: SelectorTerm, labels: Labels): boolean {
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
