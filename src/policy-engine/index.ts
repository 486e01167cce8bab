// The policy-engine as a library: compile policies, select one, decide. For the webhook, the CLI, the benchmarks and the demo;
// nothing of the running process is here.
export { type Ceilings, NO_CEILINGS } from "./ceilings.ts";
export { type AnyPolicy, compilePolicy, outlinePolicy } from "./compile-policy.ts";
export type { CompiledPolicy, CompiledRule, PolicyProblem } from "./compiled-policy.ts";
export { decide } from "./decide.ts";
export { type Emergency, emergencyGrant, isGrantInDoubt } from "./emergency.ts";
export { type ExplainedFact, type ExplainedRule, type Explanation, explain } from "./explain.ts";
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
} from "./facts.ts";
export { nextExtendUsedBytes } from "./next-extend.ts";
export { type ChangePlan, type HoldPlan, type Plan, sameConclusion } from "./plan.ts";
export { advanceRuleTimers, NO_RULE_TIMERS, type RuleTimers } from "./rule-timers.ts";
export { compileCeilings, PolicySet, type Selected } from "./select-policy.ts";
export { type HourlyMaximum, type MissingHistory, UsageHistory, type UsageWindows } from "./usage-history.ts";
