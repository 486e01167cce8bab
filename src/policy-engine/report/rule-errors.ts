// On which volumes the rules of each policy fail at run time, as the last decision of each found. A decision costs one look into a map here;
// only what changes costs more. It is memory only: a new leader decides every volume first.
import type { CompiledPolicy } from "../policies/compiled-policy.ts";

/** Of one policy. */
export interface FailingRules {
  readonly volumes: number;
  /** The volume that has failed for longest, "namespace/name" of its claim. */
  readonly example: string;
  /** Its rule and the error. */
  readonly error: string;
}

/** What a decision says about the rules of one volume. */
interface Round {
  readonly handle: string;
  readonly claim: string;
  readonly policy: CompiledPolicy | undefined;
  /** The rule that failed, and its error; undefined: none did. */
  readonly error: string | undefined;
  /** The decision asked its rules at all: one that did not says nothing new. */
  readonly isAsked: boolean;
}

export interface RuleErrors {
  note(round: Round): void;
  forget(handle: string): void;
  /** Undefined: its rules fail on no volume. */
  of(policy: string): FailingRules | undefined;
}

interface Failing {
  readonly claim: string;
  readonly error: string;
}

/** `onChange` hears of each policy that has another volume, or another error, to say. */
export function createRuleErrors(onChange: () => void): RuleErrors {
  const policyOf = new Map<string, string>();
  /** By policy and volume; in the order in which they began to fail. */
  const failing = new Map<string, Map<string, Failing>>();

  const remove = (handle: string): void => {
    const policy = policyOf.get(handle);
    if (policy === undefined) return;
    policyOf.delete(handle);
    const volumes = failing.get(policy);
    volumes?.delete(handle);
    if (volumes?.size === 0) failing.delete(policy);
    onChange();
  };
  const put = (handle: string, policy: string, now: Failing): void => {
    if (policyOf.get(handle) !== policy) remove(handle);
    const volumes = failing.get(policy) ?? new Map<string, Failing>();
    const before = volumes.get(handle);
    if (before?.error === now.error) return;
    volumes.set(handle, now);
    failing.set(policy, volumes);
    policyOf.set(handle, policy);
    onChange();
  };
  return {
    note: ({ handle, claim, policy, error, isAsked }) => {
      if (policy !== undefined && error !== undefined) put(handle, policy.key, { claim, error });
      else if (policyOf.has(handle) && (isAsked || policyOf.get(handle) !== askedOf(policy))) remove(handle);
    },
    forget: remove,
    of: (policy) => {
      const volumes = failing.get(policy);
      const first = volumes?.values().next().value;
      return volumes === undefined || first === undefined
        ? undefined
        : { volumes: volumes.size, example: first.claim, error: first.error };
    },
  };
}

/** Whose rules are asked, unless something else is said first. */
function askedOf(policy: CompiledPolicy | undefined): string | undefined {
  return policy === undefined || policy.suspended || policy.problems.length > 0 ? undefined : policy.key;
}
