// The policy-engine as a library: compile policies, select one, decide. For the webhook, the CLI, the benchmarks and the demo;
// nothing of the running process is here.

export { decide } from "./decide/decide.ts";
export { type Emergency, emergencyGrant, isGrantInDoubt } from "./decide/emergency-grant.ts";
export { type ExplainedFact, type ExplainedRule, type Explanation, explain } from "./decide/explain-decision.ts";
export { nextExtendUsedBytes } from "./decide/next-extend.ts";
export { type ChangePlan, type HoldPlan, type Plan, sameConclusion } from "./decide/plan.ts";
export {
  type ClaimFacts,
  claimKey,
  type Facts,
  type FilesystemFacts,
  type LastOperationFacts,
  NO_CHANGES,
  type NodeFacts,
  type Reading,
  type RecentChanges,
} from "./facts/facts.ts";
export { type HourlyMaximum, type MissingHistory, UsageHistory, type UsageWindows } from "./facts/usage-history.ts";
export { type Ceilings, NO_CEILINGS } from "./policies/ceilings.ts";
export { type AnyPolicy, compilePolicy, outlinePolicy } from "./policies/compile-policy.ts";
export type { CompiledPolicy, CompiledRule, PolicyProblem } from "./policies/compiled-policy.ts";
export { compileCeilings, PolicySet, type Selected } from "./policies/select-policy.ts";
export { advanceRuleTimers, NO_RULE_TIMERS, type RuleTimers } from "./rules/rule-timers.ts";
