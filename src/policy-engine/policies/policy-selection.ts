// Which claims a policy selects. An absent selector selects everything.
import { type Labels, matchesSelector } from "../../api/label-selector.ts";
import type { LabelSelector } from "../../api/schema.ts";

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
