// A policy's status: Ready or Stalled with the first problems and their positions, what stands in its way, and how many filesystems it
// decides. Pure: time is handed in.
import type { PolicyStatus } from "../../contracts/kinds/volume-policy.ts";
import { MESSAGE_CHARACTERS, shortened, withDetail } from "../../contracts/printable.ts";
import { formatBytes, formatQuantity } from "../../contracts/quantities/quantity.ts";
import type { ConditionReason, HoldReason } from "../../contracts/reasons.ts";
import { datedCondition } from "../../contracts/schema/condition.ts";
import type { Condition } from "../../contracts/schema/schema.ts";
import type { AnyPolicy } from "../policies/compile-policy.ts";
import { type CompiledPolicy, type PolicyProblem, problemText } from "../policies/compiled-policy.ts";
import { DEFAULT_MAX_FACTOR } from "../sizing/sizes.ts";
import type { PolicyUse } from "./policy-uses.ts";
import type { FailingRules } from "./rule-errors.ts";

const PROBLEMS_SHOWN = 5;
const CONFLICTS_SHOWN = 5;

/** What there is to say of one policy. */
export interface PolicyFindings {
  readonly use: PolicyUse;
  /** Undefined: no rule of it fails. */
  readonly failing: FailingRules | undefined;
}

export function policyStatus(
  object: AnyPolicy,
  compiled: CompiledPolicy,
  { use, failing }: PolicyFindings,
  nowMs: number,
): PolicyStatus {
  const { generation } = object.metadata;
  const condition = ({ type, holds, reason, message }: Finding): Condition =>
    datedCondition(
      { type, status: holds ? "True" : "False", reason, message },
      object.status?.conditions,
      generation,
      nowMs,
    );
  const findings = [...validity(compiled, use), conflictOf(use), shadowOf(compiled, use), errorOf(failing), capOf(use)];
  return {
    observedGeneration: generation,
    matchedFilesystems: use.matchedFilesystems,
    reach: formatQuantity(Math.min(use.reachBytes, Number.MAX_SAFE_INTEGER)),
    withoutCeiling: use.withoutCeiling,
    ...(use.capped === undefined ? {} : { cappedByRequest: use.capped.volumes }),
    conditions: findings.filter((finding) => finding !== undefined).map(condition),
  };
}

interface Finding {
  readonly type: string;
  readonly holds: boolean;
  readonly reason: ConditionReason | HoldReason;
  readonly message: string;
}

/** Ready waits for nothing: what is not Ready is Stalled, which shows GitOps tools that waiting does not help. */
function validity({ problems }: CompiledPolicy, { lostTo }: PolicyUse): Finding[] {
  const said = (isReady: boolean, reason: ConditionReason, message: string): Finding[] => [
    { type: "Ready", holds: isReady, reason, message },
    { type: "Stalled", holds: !isReady, reason, message },
  ];
  if (problems.length > 0) return said(false, "CompileFailed", problemsText(problems));
  if (lostTo.size === 0) return said(true, "Compiled", "all expressions compile");
  const names = mostOften(lostTo);
  const message = `set spec.priority, or narrow a selector: ${names} of the same priority decides ${counted(sum(lostTo), "claim")} that it selects, as the oldest`;
  return said(false, "Conflict", shortened(message, MESSAGE_CHARACTERS));
}

function conflictOf({ conflicts }: PolicyUse): Finding | undefined {
  if (conflicts.size === 0) return undefined;
  const message = `same scope and priority as ${firstNames([...conflicts].sort())}: the oldest decides`;
  return { type: "Conflict", holds: true, reason: "Conflict", message };
}

function shadowOf({ scope }: CompiledPolicy, { shadowedBy }: PolicyUse): Finding | undefined {
  if (shadowedBy.size === 0) return undefined;
  const isOfScope = (key: string): boolean => (scope === "Namespaced") === key.includes("/");
  const remedy = [...shadowedBy.keys()].every(isOfScope) ? "raise spec.priority, or delete it: " : "";
  const message = `${remedy}${mostOften(shadowedBy)} decides all ${counted(sum(shadowedBy), "claim")} that it selects, so its rules decide nothing`;
  return { type: "Shadowed", holds: true, reason: "Shadowed", message: shortened(message, MESSAGE_CHARACTERS) };
}

function errorOf(failing: FailingRules | undefined): Finding | undefined {
  if (failing === undefined) return undefined;
  const what = `correct the rule, which fails on ${counted(failing.volumes, "volume")}, such as ${failing.example}`;
  return { type: "RuleError", holds: true, reason: "RuleError", message: withDetail(what, failing.error) };
}

function capOf({ capped }: PolicyUse): Finding | undefined {
  if (capped === undefined) return undefined;
  const { volumes, example, bytes } = capped;
  const message = `set ceilings.max in a ClusterVolumePolicy: ${counted(volumes, "volume")} of this policy stop at ${DEFAULT_MAX_FACTOR} × the request, under limits.max, such as ${example} (at ${formatBytes(bytes)})`;
  return { type: "Capped", holds: true, reason: "CappedByRequest", message: shortened(message, MESSAGE_CHARACTERS) };
}

function counted(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

function sum(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((all, one) => all + one, 0);
}

/** The one with the most, by name where several have. */
function mostOften(counts: ReadonlyMap<string, number>): string {
  const [[first] = [""], ...others] = [...counts].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
  return others.length === 0 ? first : `${first} (and ${others.length} more)`;
}

function firstNames(keys: readonly string[]): string {
  const more = keys.length - CONFLICTS_SHOWN;
  return keys.slice(0, CONFLICTS_SHOWN).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

export function problemsText(problems: readonly PolicyProblem[]): string {
  const lines = problems.slice(0, PROBLEMS_SHOWN).map(problemText);
  const more = problems.length - lines.length;
  return more > 0 ? `${lines.join("; ")}; and ${more} more` : lines.join("; ");
}

/** Whether a reader would learn nothing new; times of unchanged conditions are carried over anyway. */
export function saysTheSame(before: PolicyStatus | undefined, now: PolicyStatus): boolean {
  return JSON.stringify(essence(before)) === JSON.stringify(essence(now));
}

function essence(status: PolicyStatus | undefined): unknown {
  const conditions = [...(status?.conditions ?? [])]
    .sort((a, b) => a.type.localeCompare(b.type))
    .map(({ type, status: holds, reason, message, observedGeneration }) => [
      type,
      holds,
      reason,
      message,
      observedGeneration,
    ]);
  const { observedGeneration, matchedFilesystems, reach, withoutCeiling, cappedByRequest } = status ?? {};
  return [observedGeneration, matchedFilesystems, reach, withoutCeiling, cappedByRequest, conditions];
}
