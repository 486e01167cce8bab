// Whether a filesystem should be larger, and how large: a raised request, limits.min, minAvailable and the Extend rules all say
// what they want, the largest size wins, and the bounds cap it. When it may happen is cooldowns.ts' question.
import type { ChangeReason } from "../../api/reasons.ts";
import { formatBytes } from "../../units/quantity.ts";
import { formatPercent } from "../../units/ratio.ts";
import type { CompiledPolicy, CompiledRule } from "../policies/compiled-policy.ts";
import type { RuleFailure } from "../rules/rule-round.ts";
import { describeLowerBound, lowerBound, type UpperBound, upperBound } from "../sizing/bounds.ts";
import { minAvailableBytes } from "../sizing/headroom.ts";
import {
  holdForFailure,
  namesSize,
  roundDownToMiB,
  roundUpToMiB,
  sizeForCapacity,
  wishedSize,
} from "../sizing/resizing.ts";
import { admit } from "./cooldowns.ts";
import type { Plan } from "./plan.ts";
import type { Question, WantedChange } from "./question.ts";

/** One reason to be larger. */
interface Wish {
  readonly reason: ChangeReason;
  readonly rule: CompiledRule | undefined;
  readonly sizeBytes: number;
  readonly because: string;
  readonly urgent: boolean;
}

/** Extends to a raised request: the claim's own promise, with or without a policy. */
export function extendAsRequested(question: Question): Plan | undefined {
  return extendTo(question, [wishOfRequest(question)]);
}

/** Extends to limits.min: what somebody wrote down needs no measurement. */
export function extendAsDeclared(question: Question): Plan | undefined {
  return extendTo(question, [wishOfMinimum(question)]);
}

/** What extends on good measurements. Undefined: nothing asks for it. */
export function extendAsMeasured(question: Question): Plan | undefined {
  const { wishes, failure } = wishesOfRules(question);
  const plan = extendTo(question, [wishOfMinimum(question), wishOfMinAvailable(question), ...wishes]);
  return plan ?? (failure && holdForFailure(question, failure));
}

/** Extends when minAvailable is crossed, and for nothing else: what may cancel a running shrink. */
export function extendForMinAvailable(question: Question): Plan | undefined {
  return extendTo(question, [wishOfMinAvailable(question)]);
}

/** The size at which twice minAvailable is available, and at least one step more than now. */
export function relievedSize(
  question: Question,
  policy: CompiledPolicy,
  usedBytes: number,
  wantedBytes: number,
): number {
  const relieved = sizeForCapacity(question, usedBytes + 2 * wantedBytes);
  return Math.max(relieved, question.facts.filesystem.sizeBytes + policy.extend.minStepBytes);
}

function wishOfRequest({ facts }: Question): Wish | undefined {
  const { raisedRequestBytes: requestBytes } = facts.claim;
  if (requestBytes === undefined || !(requestBytes > facts.filesystem.sizeBytes)) return undefined;
  const because = `the claim's request was raised to ${formatBytes(requestBytes)}`;
  return { reason: "RequestRaised", rule: undefined, sizeBytes: requestBytes, because, urgent: true };
}

function wishOfMinimum(question: Question): Wish | undefined {
  const { facts, policy } = question;
  if (policy === undefined || policy.problems.length > 0) return undefined;
  const minBytes = lowerBound(question);
  if (facts.filesystem.sizeBytes >= minBytes) return undefined;
  const because = `the size is under ${describeLowerBound(question)}`;
  return { reason: "BelowMinimum", rule: undefined, sizeBytes: minBytes, because, urgent: true };
}

function wishOfMinAvailable(question: Question): Wish | undefined {
  const { facts, policy } = question;
  const { reading, growthBytesPerSecond } = facts.filesystem;
  if (reading === undefined || policy?.guardsMinAvailable !== true) return undefined;
  const wantedBytes = minAvailableBytes(policy.limits, reading.capacityBytes, growthBytesPerSecond);
  if (reading.availableBytes >= wantedBytes) return undefined;
  const sizeBytes = relievedSize(question, policy, reading.usedBytes, wantedBytes);
  const because = `${formatBytes(reading.availableBytes)} are available, fewer than minAvailable (${formatBytes(wantedBytes)})`;
  return { reason: "BelowMinAvailable", rule: undefined, sizeBytes, because, urgent: true };
}

function wishesOfRules(question: Question): { wishes: Wish[]; failure: RuleFailure | undefined } {
  const { facts, policy } = question;
  if (facts.metricsStale && policy?.onStaleMetrics === "Hold") return NO_WISHES;
  const rules = question.firingRules("Extend");
  if (rules.length === 0) return NO_WISHES;
  const wishes: Wish[] = [];
  let failure: RuleFailure | undefined;
  for (const rule of rules) {
    const wished = wishedSize(question, rule, facts.filesystem.reading?.usedBytes ?? 0);
    if (typeof wished === "number") wishes.push(wishOfRule(question, rule, wished));
    else failure ??= wished;
  }
  return { wishes, failure };
}

const NO_WISHES = { wishes: [], failure: undefined };

// At least a step: a rule on inodes or on growth may fire while its targetUsed asks for less than there is.
function wishOfRule({ facts, policy }: Question, rule: CompiledRule, wishedBytes: number): Wish {
  const { reading, sizeBytes } = facts.filesystem;
  const atLeast = namesSize(rule) || policy === undefined ? 0 : sizeBytes + policy.extend.minStepBytes;
  const because =
    reading === undefined
      ? "the rule holds"
      : `${formatPercent(reading.usedBytes / reading.capacityBytes)} of ${formatBytes(reading.capacityBytes)} is used`;
  return { reason: "RuleFired", rule, sizeBytes: Math.max(wishedBytes, atLeast), because, urgent: false };
}

// The largest size wins; that one of them is urgent makes the whole change urgent, and is the reason to show.
function extendTo(question: Question, wishes: readonly (Wish | undefined)[]): Plan | undefined {
  const asked = wishes.filter((wish) => wish !== undefined);
  if (asked.length === 0) return undefined;
  const largest = asked.reduce((a, b) => (b.sizeBytes > a.sizeBytes ? b : a));
  const shown = asked.find((wish) => wish.urgent) ?? largest;
  return boundedExtend(question, { ...shown, sizeBytes: largest.sizeBytes });
}

function boundedExtend(question: Question, wish: Wish): Plan {
  const fromBytes = question.facts.filesystem.sizeBytes;
  const uncappedBytes = roundUpToMiB(wish.sizeBytes);
  const details = { rule: wish.rule?.name, uncappedBytes };
  const bound = upperBound(question);
  if (roundDownToMiB(bound.bytes) <= fromBytes)
    return question.hold(
      bound.reason,
      `${wish.because}, and the size of ${formatBytes(fromBytes)} is at ${bound.text}`,
      details,
    );
  const minStepBytes = minStepOf(question, wish);
  if (uncappedBytes - fromBytes < minStepBytes)
    return question.hold(
      "StepTooSmall",
      `${wish.because}; ${stepText(fromBytes, uncappedBytes, minStepBytes)}`,
      details,
    );
  return admit(question, capped(question, wish, uncappedBytes, bound));
}

// Only a rule that names its size can ask for less than a step; what is urgent never waits for one.
function minStepOf({ policy }: Question, wish: Wish): number {
  return wish.urgent || policy === undefined ? 1 : policy.extend.minStepBytes;
}

function stepText(fromBytes: number, uncappedBytes: number, minStepBytes: number): string {
  const asked = `the size asked for is ${formatBytes(uncappedBytes)}`;
  if (uncappedBytes <= fromBytes) return `${asked}, no more than there is`;
  return `${asked}, ${formatBytes(uncappedBytes - fromBytes)} more than there is and less than minStep (${formatBytes(minStepBytes)})`;
}

function capped(question: Question, wish: Wish, uncappedBytes: number, bound: UpperBound): WantedChange {
  const maxStepBytes = question.policy?.extend.maxStepBytes ?? Number.POSITIVE_INFINITY;
  const stepBytes = question.facts.filesystem.sizeBytes + maxStepBytes;
  const sizeBytes = Math.min(uncappedBytes, roundDownToMiB(bound.bytes), stepBytes);
  const byStep = stepBytes < bound.bytes ? `maxStep (${formatBytes(maxStepBytes)})` : bound.text;
  return {
    direction: "extend",
    reason: wish.reason,
    rule: wish.rule,
    uncappedBytes,
    sizeBytes,
    because: wish.because,
    cappedBy: sizeBytes < uncappedBytes ? byStep : undefined,
    urgent: wish.urgent,
  };
}
