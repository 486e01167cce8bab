// The policy-engine as a library: compile policies, select one, decide. For the webhook, the CLI, the benchmarks and the demo;
// nothing of the running process is here.

export { decide } from "./decide/decide.ts";
export { type Emergency, emergencyGrant, isGrantUncertain, nextExtendUsedBytes } from "./decide/decide-precautions.ts";
export { type ExplainedFact, type ExplainedRule, type Explanation, explain } from "./decide/explain-decision.ts";
export { type ChangePlan, type HoldPlan, type Plan, sameConclusion } from "./decide/plan.ts";
export type { MissingHistory, UsageWindows } from "./facts/facts.ts";
export {
  advanceRuleTimers,
  type ClaimFacts,
  claimKey,
  type Facts,
  type FilesystemFacts,
  type LastOperationFacts,
  NO_CHANGES,
  NO_RULE_TIMERS,
  type NodeFacts,
  type ReceivedReading,
  type RecentChanges,
  type RuleTimers,
} from "./facts/facts.ts";
export { type HourlyMaximum, UsageHistory } from "./facts/usage-history.ts";
export { type Ceilings, NO_CEILINGS } from "./policies/ceilings.ts";
export { type AnyPolicy, compilePolicy, outlinePolicy } from "./policies/compile-policy.ts";
export type { CompiledPolicy, CompiledRule, PolicyProblem } from "./policies/compiled-policy.ts";
export { compileCeilings, PolicySet, type Selected } from "./policies/select-policy.ts";
