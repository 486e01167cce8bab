// Why one volume is as it is: its facts with their ages, what each rule says, the bounds, the plan and when next. The same
// functions that decide answer here; nothing is decided twice in two ways. Plain JSON, for people to read through the CLI.
import { formatDuration } from "../../contracts/quantities/duration.ts";
import { formatBytes } from "../../contracts/quantities/quantity.ts";
import { formatPercent } from "../../contracts/quantities/ratio.ts";
import { claimKey, type Facts } from "../facts/facts.ts";
import type { Approval } from "../policies/approvals.ts";
import type { Ceilings } from "../policies/ceilings.ts";
import type { CompiledPolicy, CompiledRule, PolicyProblem } from "../policies/compiled-policy.ts";
import { candidateSize, describeLowerBound, lowerBound, minAvailableBytes, upperBound } from "../sizing/sizes.ts";
import { decide } from "./decide.ts";
import { nextExtendUsedBytes } from "./decide-precautions.ts";
import type { Plan } from "./plan.ts";
import { Question } from "./question.ts";

export interface Explanation {
  readonly claim: string;
  readonly atMs: number;
  readonly policy: string | undefined;
  readonly problems: readonly PolicyProblem[];
  readonly facts: readonly ExplainedFact[];
  readonly rules: readonly ExplainedRule[];
  readonly lowerBytes: number;
  /** What sets the lower bound, with its size. */
  readonly lowerBy: string;
  readonly upperBytes: number;
  /** What sets the upper bound, with its size. */
  readonly upperBy: string;
  /** Used bytes at which it would be extended next; undefined: nothing would. */
  readonly nextExtendUsedBytes: number | undefined;
  readonly plan: Plan;
}

export interface ExplainedFact {
  readonly name: string;
  readonly value: string;
  /** Undefined for facts that do not age, such as the claim's. */
  readonly ageMs: number | undefined;
}

export interface ExplainedRule {
  readonly name: string;
  readonly action: CompiledRule["action"];
  readonly when: string;
  readonly verdict: "holds" | "does not hold" | "unknown";
  /** Why it is unknown. */
  readonly because: string | undefined;
  readonly heldForMs: number;
  readonly forMs: number;
  /** What it would change the size to, before any limit; undefined where that is unknown. */
  readonly candidateBytes: number | undefined;
}

/** Explains one volume. Never throws. */
export function explain(facts: Facts, policy: CompiledPolicy | undefined, ceilings: Ceilings): Explanation {
  const question = new Question(facts, policy, ceilings);
  const upper = upperBound(question);
  return {
    claim: claimKey(facts.claim),
    atMs: facts.nowMs,
    policy: policy?.key,
    problems: policy?.problems ?? [],
    facts: explainFacts(facts, policy),
    rules: (policy?.rules ?? []).map((rule) => explainRule(question, rule)),
    lowerBytes: lowerBound(question),
    lowerBy: describeLowerBound(question),
    upperBytes: upper.bytes,
    upperBy: upper.text,
    nextExtendUsedBytes: nextExtendUsedBytes(facts, policy, ceilings),
    plan: decide(facts, policy, ceilings),
  };
}

function explainFacts(facts: Facts, policy: CompiledPolicy | undefined): ExplainedFact[] {
  const { claim, filesystem, monotonicMs } = facts;
  const lasting = (name: string, value: string): ExplainedFact => ({ name, value, ageMs: undefined });
  const last = filesystem.lastOperation;
  return [
    lasting("backend", `${claim.backend}, ${claim.fsType}, class ${claim.storageClassName}`),
    lasting("request", formatBytes(claim.nominalBytes)),
    lasting("size", formatBytes(filesystem.sizeBytes)),
    ...explainReading(facts, policy),
    lasting("operation", filesystem.operationInProgress ?? "none"),
    ...(filesystem.consolidation === undefined ? [] : [lasting("fewer members", filesystem.consolidation.because)]),
    ...(last === undefined
      ? []
      : [{ name: "last operation", value: `${last.kind} ${last.outcome}`, ageMs: monotonicMs - last.endedAtMs }]),
    lasting(
      "changes in 24h",
      `${counted(facts.changes.extendsAtMs, "extend")}, ${counted(facts.changes.shrinksAtMs, "shrink")}`,
    ),
    ...(facts.approvals ?? []).map((approval) => lasting("approval", describeApproval(approval))),
    ...explainWindows(facts, policy),
    ...explainGrowth(facts, policy),
  ];
}

function describeApproval({ name, action, boundBytes, notAfterMs }: Approval): string {
  const bound = action === "Extend" ? "up to" : "down to";
  return `${name}: ${action} ${bound} ${formatBytes(boundBytes)} until ${new Date(notAfterMs).toISOString()}`;
}

function counted({ length }: readonly number[], what: string): string {
  return `${length} ${what}${length === 1 ? "" : "s"}`;
}

function explainReading({ filesystem, monotonicMs }: Facts, policy: CompiledPolicy | undefined): ExplainedFact[] {
  const { reading } = filesystem;
  if (reading === undefined) return [{ name: "reading", value: "none", ageMs: undefined }];
  const ageMs = monotonicMs - reading.takenMs;
  const { capacityBytes, usedBytes, availableBytes, inodesTotal, inodesUsed, growthBytesPerSecond: growth } = reading;
  const inodes = inodesTotal === 0 ? "unlimited" : `${inodesUsed ?? "unknown"} of ${inodesTotal ?? "unknown"}`;
  const least = policy && minAvailableBytes(policy.limits, capacityBytes, growth);
  const values: [name: string, value: string][] = [
    ["read from", reading.source],
    ["capacity", formatBytes(capacityBytes)],
    ["used", `${formatBytes(usedBytes)} (${formatPercent(usedBytes / capacityBytes)})`],
    [
      "available",
      `${formatBytes(availableBytes)}${least === undefined ? "" : `, extended under ${formatBytes(least)}`}`,
    ],
    ["inodes used", inodes],
    ["growth", growth === undefined ? "unknown" : `${formatBytes(Math.round(growth))}/s`],
  ];
  return values.map(([name, value]) => ({ name, value, ageMs }));
}

function explainWindows({ filesystem, monotonicMs }: Facts, policy: CompiledPolicy | undefined): ExplainedFact[] {
  const windows = new Set((policy?.rules ?? []).flatMap(({ when }) => when.windows.map(({ windowMs }) => windowMs)));
  return [...windows].map((windowMs) => {
    const peak = filesystem.history.maxUsedBytes(windowMs, monotonicMs);
    const value = typeof peak === "number" ? formatBytes(peak) : peak.missing;
    return { name: `most used in ${formatDuration(windowMs)}`, value, ageMs: undefined };
  });
}

function explainGrowth({ filesystem, monotonicMs }: Facts, policy: CompiledPolicy | undefined): ExplainedFact[] {
  return (policy?.growthWindowsMs ?? []).map((windowMs) => {
    const growth = filesystem.growth?.bytesPerSecond(windowMs, monotonicMs) ?? { missing: "unknown" };
    const value = typeof growth === "number" ? `${formatBytes(Math.round(growth))}/s` : growth.missing;
    return { name: `growth over ${formatDuration(windowMs)}`, value, ageMs: undefined };
  });
}

function explainRule(question: Question, rule: CompiledRule): ExplainedRule {
  const result = rule.when.evaluate(question.scope);
  const { reading, history } = question.facts.filesystem;
  const isInstant = rule.windowMs === 0 || rule.action === "Extend";
  const peak = isInstant ? reading?.usedBytes : history.maxUsedBytes(rule.windowMs, question.facts.monotonicMs);
  const wantedSize = typeof peak === "number" ? candidateSize(question, rule, peak) : undefined;
  return {
    name: rule.name,
    action: rule.action,
    when: rule.when.source,
    verdict: !result.ok ? "unknown" : result.value ? "holds" : "does not hold",
    because: result.ok ? undefined : result.message,
    heldForMs: result.ok && result.value ? question.heldForMs(rule) : 0,
    forMs: rule.forMs,
    candidateBytes: typeof wantedSize === "number" ? Math.ceil(wantedSize) : undefined,
  };
}
