// One round of a policy's rules over one volume: all are evaluated, and each holds, does not, or cannot be told.
import type { FailureKind } from "../cel/failure.ts";
import type { Scope } from "../cel/scope.ts";
import type { CompiledRule } from "../policies/compiled-policy.ts";

export interface RuleRound {
  /** Bit i: rules[i] holds. */
  readonly held: number;
  /** The first rule that could not be told, an Extend before any Shrink. */
  readonly failure: RuleFailure | undefined;
}

export interface RuleFailure {
  readonly rule: CompiledRule;
  readonly kind: FailureKind;
  readonly message: string;
}

/** Shared, since most rounds end like this. */
const NOTHING_HOLDS: RuleRound = { held: 0, failure: undefined };

/** Evaluates all rules. Never throws. At most 32 rules, as the schema says: one bit each. */
export function evaluateRules(rules: readonly CompiledRule[], scope: Scope): RuleRound {
  let held = 0;
  let failure: RuleFailure | undefined;
  for (let i = 0; i < rules.length; i += 1) {
    const rule = rules[i] as CompiledRule;
    const result = rule.when.evaluate(scope);
    if (result.ok) held |= result.value ? 1 << i : 0;
    else if (failure === undefined || (failure.rule.action === "Shrink" && rule.action === "Extend"))
      failure = { rule, kind: result.kind, message: result.message };
  }
  return held === 0 && failure === undefined ? NOTHING_HOLDS : { held, failure };
}

/** Whether rules[index] holds in a round. */
export function holds(round: RuleRound, index: number): boolean {
  return (round.held & (1 << index)) !== 0;
}
