// A policy that compiles, as the functions of this room look at it: what it decides by, next to how it is written.
import type { ClusterVolumePolicySpec, PolicyRule } from "../../contracts/kinds/volume-policy.ts";
import type { AnyPolicy } from "../policies/compile-policy.ts";
import type { CompiledPolicy, CompiledRule } from "../policies/compiled-policy.ts";
import { type Branch, branchesOf } from "./branches.ts";
import { type Syntax, syntaxOf } from "./syntax.ts";

export interface LintedRule {
  readonly written: PolicyRule;
  readonly compiled: CompiledRule;
  /** The ways in which its condition can be true. */
  readonly branches: readonly Branch[];
}

export interface LintedPolicy {
  readonly spec: ClusterVolumePolicySpec;
  readonly compiled: CompiledPolicy;
  readonly rules: readonly LintedRule[];
  readonly syntax: Syntax;
}

/** One concern: a sentence for each place that is hardly meant so. Pure. */
export type Lint = (policy: LintedPolicy) => readonly string[];

/** `compiled`: the policy's, without problems. */
export function lintedPolicy(policy: AnyPolicy, compiled: CompiledPolicy): LintedPolicy {
  const spec: ClusterVolumePolicySpec = policy.spec;
  const syntax = syntaxOf(spec);
  const byName = new Map(compiled.rules.map((rule) => [rule.name, rule]));
  const rules = (spec.rules ?? []).flatMap((written) => {
    const rule = byName.get(written.name);
    return rule === undefined
      ? []
      : [{ written, compiled: rule, branches: branchesOf(syntax.tree(written.when), syntax) }];
  });
  return { spec, compiled, rules, syntax };
}

/** Of a rule that is for `targetUsed`; undefined for the others. */
export function targetRatio({ compiled: { size } }: LintedRule): number | undefined {
  return size.kind === "targetUsed" ? size.ratio : undefined;
}
