// What a policy selects at present, for warnings: a selector or a class that matches nothing is a typing error more often than not.
import type { Labels } from "../../contracts/schema/label-selector.ts";
import { matchesSelector } from "../../contracts/schema/label-selector.ts";
import type { LabelSelector } from "../../contracts/schema/schema.ts";
import type { PolicySelection } from "../policies/compiled-policy.ts";

/** What there is. */
export interface SelectableObjects {
  readonly storageClassNames: Iterable<string>;
  /** Of the policy's namespace; undefined: nothing is known of them, or too many are there to look at. */
  readonly claimLabels: readonly Labels[] | undefined;
  readonly namespaceLabels: readonly Labels[] | undefined;
}

const NAMES_SHOWN = 3;
/** Of values and labels that a selector compares. */
const TERMS_MAX = 1000;
const CHARS_SHOWN = 60;

export function selectionWarnings(selection: PolicySelection, objects: SelectableObjects): readonly string[] {
  const { namespace, namespaceSelector, selector, storageClassNames } = selection;
  const known = new Set(objects.storageClassNames);
  const unknown = [...(storageClassNames ?? [])].filter((name) => !known.has(name));
  const warnings: string[] = [];
  if (unknown.length > 0) warnings.push(`storageClassNames: there is no StorageClass ${firstOf(unknown)} now`);
  const isEmpty = (labels: readonly Labels[] | undefined, of: typeof selector): boolean =>
    of !== undefined && !isLarge(of) && labels?.some((some) => matchesSelector(of, some)) === false;
  if (isEmpty(objects.claimLabels, selector))
    warnings.push(
      `selector: no claim ${namespace === undefined ? "of the cluster" : `of namespace ${namespace}`} has these labels now`,
    );
  if (isEmpty(objects.namespaceLabels, namespaceSelector))
    warnings.push("namespaceSelector: no namespace has these labels now");
  return warnings;
}

/** More than the schema takes: who sends that is not the API server, and gets no time of decisions. */
function isLarge({ matchLabels = {}, matchExpressions = [] }: LabelSelector): boolean {
  const values = matchExpressions.reduce((sum, term) => sum + 1 + (term.values?.length ?? 0), 0);
  return values + Object.keys(matchLabels).length > TERMS_MAX;
}

function firstOf(names: readonly string[]): string {
  const shown = names.slice(0, NAMES_SHOWN).map((name) => name.slice(0, CHARS_SHOWN));
  const more = names.length - shown.length;
  return shown.join(", ") + (more > 0 ? ` and ${more} more` : "");
}
