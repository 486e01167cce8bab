// Extends that cannot help: an Extend rule that is true at any size would be followed to the limit, a step with each sample. It gets one
// step, and then waits until something that it may depend on has changed. Whether larger can help is found by asking the rule itself. Pure.
import { type Facts, NO_VAIN_EXTENDS, type VainExtends } from "../facts/facts.ts";
import { predictGrowth } from "../facts/prediction.ts";
import type { CompiledPolicy, CompiledRule } from "../policies/compiled-policy.ts";
import type { VainExtend } from "./plan.ts";
import { scopeOf } from "./rule-round.ts";

/** Of the size that the rule asks for. */
const MULTIPLES = [1, 2, 4, 8];
/** Use or inodes that have risen by this share are another situation, and … */
const RISEN_RATIO = 0.05;
/** … so is this share of what was left when the step was decided: a rule may know of a writer that fills the rest. */
const SPENT_RATIO = 0.25;

/**
 * Whether the rule, which holds now, would hold at the size that it asks for and at several times that. A rule that fails on what is
 * predicted counts as one that larger helps, and so does one that names a size and asks for no more once that is there.
 */
export function isVain(facts: Facts, rule: CompiledRule, wantedBytes: number): boolean {
  if (isContentAt(facts, rule, wantedBytes)) return false;
  return MULTIPLES.every((multiple) => holdsAt(facts, rule, wantedBytes * multiple));
}

function holdsAt(facts: Facts, { when }: CompiledRule, sizeBytes: number): boolean {
  const result = when.evaluate(scopeOf(predictGrowth(facts, sizeBytes)));
  return result.ok && result.value;
}

function isContentAt(facts: Facts, { size }: CompiledRule, sizeBytes: number): boolean {
  if (size.kind === "to") return size.bytes <= sizeBytes;
  if (size.kind !== "toExpression") return false;
  const result = size.expression.evaluate(scopeOf(predictGrowth(facts, sizeBytes)));
  return !result.ok || result.value <= sizeBytes;
}

/** Whether an extend by this rule was in vain, and nothing has changed since. */
export function stands(facts: Facts, policy: CompiledPolicy, rule: CompiledRule): boolean {
  const made = unchanged(facts, policy, rule);
  return made !== undefined && facts.filesystem.sizeBytes >= made.wantedBytes;
}

/** To be remembered with an extend that is made by a rule which is vain; with its further steps, too. */
export function vainExtendBy(
  facts: Facts,
  policy: CompiledPolicy,
  rule: CompiledRule,
  wantedBytes: number,
): VainExtend | undefined {
  const { reading } = facts.filesystem;
  if (reading === undefined) return undefined;
  const { usedBytes, inodesTotal = 0, inodesUsed = 0 } = reading;
  const used = { before: usedBytes, left: Math.max(0, wantedBytes - usedBytes) };
  const inodes = { before: inodesUsed, left: Math.max(0, inodesTotal - inodesUsed) };
  const ground = groundOf(facts, policy, rule);
  return unchanged(facts, policy, rule) ?? { timerKey: rule.timerKey, wantedBytes, used, inodesUsed: inodes, ground };
}

function unchanged(facts: Facts, policy: CompiledPolicy, rule: CompiledRule): VainExtend | undefined {
  const made = facts.vainExtends.get(rule.timerKey);
  const { reading } = facts.filesystem;
  if (made === undefined || reading === undefined || made.ground !== groundOf(facts, policy, rule)) return undefined;
  const isUsed = hasRisen(made.used, reading.usedBytes);
  return isUsed || hasRisen(made.inodesUsed, reading.inodesUsed ?? 0) ? undefined : made;
}

function hasRisen({ before, left }: VainExtend["used"], now: number): boolean {
  return now - before > Math.min(before * RISEN_RATIO, left * SPENT_RATIO);
}

function groundOf({ claim }: Facts, { limits }: CompiledPolicy, rule: CompiledRule): string {
  const { size } = rule;
  const asked = size.kind === "toExpression" ? size.expression.source : size;
  return JSON.stringify([claim.labels, readsAnnotations(rule) ? claim.annotations : [], limits, asked]);
}

/** Other controllers write annotations of their own, as often as they like: only a rule that reads them depends on them. */
function readsAnnotations({ when, size }: CompiledRule): boolean {
  const reads = size.kind === "toExpression" ? [...when.reads, ...size.expression.reads] : when.reads;
  return reads.includes("volume.annotations");
}

/** Those of rules that still hold: one that was false in between starts afresh. heldRules is Plan.heldRules. */
export function advanceVainExtends(
  made: VainExtends,
  policy: CompiledPolicy,
  heldRules: number | undefined,
): VainExtends {
  if (heldRules === undefined || made.size === 0) return made;
  const held = policy.rules.filter((_rule, index) => (heldRules & (1 << index)) !== 0);
  const standing = held.flatMap(({ timerKey }) => made.get(timerKey) ?? []);
  return standing.length === 0 ? NO_VAIN_EXTENDS : new Map(standing.map((one) => [one.timerKey, one]));
}
