// From a rule's wish to a size of the member devices. Ratios come from the filesystem's capacity, sizes are the devices': ext4
// and xfs keep some of them for themselves.
import { MIB } from "../../units/quantity.ts";
import type { HoldPlan } from "../decide/plan.ts";
import type { Question } from "../decide/question.ts";
import type { CompiledRule } from "../policies/compiled-policy.ts";
import type { RuleFailure } from "../rules/rule-round.ts";

/** The next whole MiB: sizes are rounded up, for a shrink too, since larger is safer. */
export function roundUpToMiB(bytes: number): number {
  return Math.ceil(bytes / MIB) * MIB;
}

export function roundDownToMiB(bytes: number): number {
  return Math.floor(bytes / MIB) * MIB;
}

/** The size of the members on which the filesystem has this capacity. */
export function sizeForCapacity({ facts }: Question, capacityBytes: number): number {
  const { sizeBytes, reading } = facts.filesystem;
  return reading === undefined ? capacityBytes : Math.ceil(capacityBytes * (sizeBytes / reading.capacityBytes));
}

/** The size that a rule asks for, with this much used, before any limit. Bytes, or why its expression has no value. */
export function wishedSize(question: Question, rule: CompiledRule, usedBytes: number): number | RuleFailure {
  const { sizeBytes } = question.facts.filesystem;
  const sign = rule.action === "Extend" ? 1 : -1;
  const { size } = rule;
  switch (size.kind) {
    case "targetUsed":
      return sizeForCapacity(question, usedBytes / size.ratio);
    case "byRatio":
      return sizeBytes * (1 + sign * size.ratio);
    case "byBytes":
      return Math.max(0, sizeBytes + sign * size.bytes);
    case "to":
      return size.bytes;
    case "toExpression": {
      const result = size.expression.evaluate(question.scope);
      return result.ok ? result.value : { rule, kind: result.kind, message: result.message };
    }
  }
}

/** Whether the rule names a size (and is content at it), rather than a difference or a ratio. */
export function namesSize(rule: CompiledRule): boolean {
  return rule.size.kind === "to" || rule.size.kind === "toExpression";
}

/** A rule that cannot be told holds the volume: a failed Extend rule might have held, and a failed Shrink rule might not. */
export function holdForFailure(question: Question, { rule, kind, message }: RuleFailure): HoldPlan {
  return question.hold(kind, `${rule.name}: ${message}`, { rule: rule.name });
}
