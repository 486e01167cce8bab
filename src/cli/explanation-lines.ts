// An explanation as a person reads it at 3 a.m.: the plan first, then what it rests on. Pure: text from plain data.
import type { ExplainedRule, Explanation } from "../policy-engine/index.ts";
import { formatDuration } from "../units/duration.ts";
import { formatBytes } from "../units/quantity.ts";

const VERDICT_MARKS: Readonly<Record<ExplainedRule["verdict"], string>> = {
  holds: "yes",
  "does not hold": "no ",
  "cannot be told": "?  ",
};

export function explanationLines(explanation: Explanation): string[] {
  return [
    `${explanation.claim}, decided by ${explanation.policy ?? "no policy"}`,
    "",
    ...planLines(explanation),
    "",
    "Facts",
    ...aligned(explanation.facts.map(({ name, value, ageMs }) => [name, `${value}${age(ageMs)}`])),
    "",
    "Rules",
    ...(explanation.rules.length === 0 ? ["  none"] : explanation.rules.flatMap(ruleLines)),
    ...explanation.problems.map(
      ({ field, message, hint }) => `  ${field}: ${message}${hint === undefined ? "" : ` (${hint})`}`,
    ),
    "",
    "Bounds",
    ...aligned([
      ["never under", explanation.lowerBy],
      ["never over", explanation.upperBy],
      ["next extend at", nextExtend(explanation.nextExtendUsedBytes)],
    ]),
  ];
}

function planLines({ plan, atMs }: Explanation): string[] {
  const lines = [`  ${plan.kind}: ${plan.reason}`, `  ${plan.message}`];
  if (plan.kind !== "hold") return lines;
  if (plan.preview !== undefined) lines.push(`  would: ${plan.preview}`);
  if (plan.nextEligibleMs !== undefined)
    lines.push(`  earliest change: in ${formatDuration(Math.max(0, plan.nextEligibleMs - atMs))}`);
  return lines;
}

function ruleLines(rule: ExplainedRule): string[] {
  const lines = [`  ${VERDICT_MARKS[rule.verdict]}  ${rule.name} (${rule.action}): ${rule.when}`];
  if (rule.because !== undefined) lines.push(`       ${rule.because}`);
  if (rule.verdict === "holds" && rule.forMs > 0)
    lines.push(`       for ${formatDuration(rule.heldForMs)} of ${formatDuration(rule.forMs)}`);
  if (rule.wishedBytes !== undefined) lines.push(`       would make it ${formatBytes(rule.wishedBytes)}`);
  return lines;
}

function nextExtend(usedBytes: number | undefined): string {
  return usedBytes === undefined ? "nothing would extend it" : `${formatBytes(usedBytes)} used`;
}

function age(ageMs: number | undefined): string {
  return ageMs === undefined ? "" : `, ${formatDuration(Math.max(0, ageMs))} ago`;
}

function aligned(pairs: readonly (readonly [name: string, value: string])[]): string[] {
  const width = Math.max(...pairs.map(([name]) => name.length));
  return pairs.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`);
}
