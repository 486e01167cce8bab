// Which policy decides a claim, and which ceilings stand over it. A namespaced policy goes before every cluster policy; within
// one scope the highest priority wins, then the oldest. Invalid and suspended policies win like any other: they hold.
import type { ClusterVolumePolicy, ClusterVolumePolicySpec } from "../../contracts/kinds/volume-policy.ts";
import { type Ceilings, readCeilings, sameCeilings, strictestCeilings } from "./ceilings.ts";
import { type CompiledPolicy, type PolicySelection, type SelectableClaim, selectsClaim } from "./compiled-policy.ts";

/** What selection says about one claim. */
export interface Selected {
  readonly policy: CompiledPolicy | undefined;
  /** Keys of policies of the same scope and priority that select the claim too: they and the winner get Conflict. */
  readonly conflicts: readonly string[];
  readonly ceilings: Ceilings;
}

/** A cluster policy as a ceiling over the claims it matches. */
export interface CeilingPolicy {
  readonly selection: PolicySelection;
  readonly ceilings: Ceilings;
}

/** The ceilings of a cluster policy that has some; undefined: it has none. */
export function compileCeilings(policy: ClusterVolumePolicy, { selection }: CompiledPolicy): CeilingPolicy | undefined {
  // What got past the schema may have any shape.
  const spec = policy.spec as ClusterVolumePolicySpec | null | undefined;
  if (spec?.ceilings === undefined) return undefined;
  return { selection, ceilings: readCeilings(policy.metadata.name, spec.ceilings) };
}

type Labels = Readonly<Record<string, string>>;

interface Answer {
  readonly storageClassName: string;
  readonly namespaceLabels: Labels;
  readonly selected: Selected;
}

/** From so many of one namespace on, the answer for a claim is remembered. */
const MANY_POLICIES = 16;

/** All policies of the cluster, in the order in which they win. Immutable: recreated when a policy changes. */
export class PolicySet {
  readonly #byNamespace = new Map<string, CompiledPolicy[]>();
  readonly #cluster: CompiledPolicy[] = [];
  readonly #ceilings: readonly CeilingPolicy[];
  /** For each namespace that has many policies, by the labels of a claim: the objects, which caches replace when they change. */
  readonly #answers = new Map<string, WeakMap<Labels, Answer>>();

  constructor(policies: readonly CompiledPolicy[], ceilings: readonly CeilingPolicy[]) {
    for (const policy of [...policies].sort(byPrecedence)) this.#listOf(policy).push(policy);
    this.#ceilings = ceilings;
  }

  /** The same answer as long as the claim's labels and class and the namespace's labels stay the same. */
  select(claim: SelectableClaim, namespaceLabels: Labels): Selected {
    const named = this.#byNamespace.get(claim.namespace) ?? [];
    if (named.length < MANY_POLICIES) return this.#select(named, claim, namespaceLabels);
    // Asked for each decision, a thousand selectors would cost others their turn.
    const answers = this.#answers.get(claim.namespace) ?? new WeakMap<Labels, Answer>();
    this.#answers.set(claim.namespace, answers);
    const known = answers.get(claim.labels);
    const { storageClassName } = claim;
    if (known?.storageClassName === storageClassName && known.namespaceLabels === namespaceLabels)
      return known.selected;
    const selected = this.#select(named, claim, namespaceLabels);
    answers.set(claim.labels, { storageClassName, namespaceLabels, selected });
    return selected;
  }

  /**
   * Who is selected, as `known` where that says the same: an answer of this set, or of an earlier one about the same labels. Most changes of
   * policies leave most claims with theirs.
   */
  again(known: Selected, claim: SelectableClaim, namespaceLabels: Labels): Selected {
    if (!(known instanceof SetAnswer && known.isAbout(claim, namespaceLabels)))
      return this.select(claim, namespaceLabels);
    if (known.isOf(this)) return known;
    const selected = this.select(claim, namespaceLabels);
    if (!isSameAnswer(known, selected)) return selected;
    known.confirmedBy(this);
    return known;
  }

  #select(named: readonly CompiledPolicy[], claim: SelectableClaim, namespaceLabels: Labels): Selected {
    const own = firstAndEquals(named, claim, namespaceLabels);
    const { policy, conflicts } =
      own.policy === undefined ? firstAndEquals(this.#cluster, claim, namespaceLabels) : own;
    const matching = this.#ceilings.filter(({ selection }) => selectsClaim(selection, claim, namespaceLabels));
    const ceilings = strictestCeilings(matching.map((one) => one.ceilings));
    return new SetAnswer({ policy, conflicts, ceilings }, this, claim, namespaceLabels);
  }

  #listOf({ selection }: CompiledPolicy): CompiledPolicy[] {
    if (selection.namespace === undefined) return this.#cluster;
    const list = this.#byNamespace.get(selection.namespace) ?? [];
    this.#byNamespace.set(selection.namespace, list);
    return list;
  }
}

/** An answer that knows what it was asked. */
class SetAnswer implements Selected {
  readonly policy: CompiledPolicy | undefined;
  readonly conflicts: readonly string[];
  readonly ceilings: Ceilings;
  #set: PolicySet;
  readonly #claim: SelectableClaim;
  readonly #namespaceLabels: Labels;

  constructor(selected: Selected, set: PolicySet, claim: SelectableClaim, namespaceLabels: Labels) {
    this.policy = selected.policy;
    this.conflicts = selected.conflicts;
    this.ceilings = selected.ceilings;
    this.#set = set;
    this.#claim = claim;
    this.#namespaceLabels = namespaceLabels;
  }

  isAbout({ namespace, labels, storageClassName }: SelectableClaim, namespaceLabels: Labels): boolean {
    const asked = this.#claim;
    const isOfClaim =
      asked.namespace === namespace && asked.labels === labels && asked.storageClassName === storageClassName;
    return isOfClaim && this.#namespaceLabels === namespaceLabels;
  }

  isOf(set: PolicySet): boolean {
    return this.#set === set;
  }

  /** The set, asked the same, has said the same. */
  confirmedBy(set: PolicySet): void {
    this.#set = set;
  }
}

// A policy that was compiled again is another. Ceilings are read again with each set.
function isSameAnswer(a: Selected, b: Selected): boolean {
  if (a.policy !== b.policy) return false;
  return sameCeilings(a.ceilings, b.ceilings) && a.conflicts.join(" ") === b.conflicts.join(" ");
}

function firstAndEquals(policies: readonly CompiledPolicy[], claim: SelectableClaim, namespaceLabels: Labels) {
  const selects = (policy: CompiledPolicy): boolean =>
    policy.decides && selectsClaim(policy.selection, claim, namespaceLabels);
  const index = policies.findIndex(selects);
  const policy = policies[index];
  if (policy === undefined) return NOBODY;
  const conflicts = policies
    .slice(index + 1)
    .filter((other) => other.selection.priority === policy.selection.priority && selects(other));
  return { policy, conflicts: conflicts.length === 0 ? NONE : conflicts.map(({ key }) => key) };
}

const NONE: readonly string[] = [];
const NOBODY = { policy: undefined, conflicts: NONE };

// The key decides between policies of the same second, so that every replica and every restart agrees.
function byPrecedence(a: CompiledPolicy, b: CompiledPolicy): number {
  return (
    b.selection.priority - a.selection.priority ||
    compare(a.selection.createdAtMs, b.selection.createdAtMs) ||
    compare(a.key, b.key)
  );
}

function compare<T extends number | string>(a: T, b: T): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
