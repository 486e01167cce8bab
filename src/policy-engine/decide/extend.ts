// Whether a filesystem should be larger, and how large: a raised request, limits.min, minAvailable and the Extend rules all say
// what they want, the largest size wins, and the bounds cap it. When it may happen is cooldowns.ts' question.

import { formatDuration } from "../../contracts/quantities/duration.ts";
import { formatBytes } from "../../contracts/quantities/quantity.ts";
import { formatPercent } from "../../contracts/quantities/ratio.ts";
import type { ChangeReason } from "../../contracts/reasons.ts";
import { isPaused } from "../facts/pause.ts";
import { freedom } from "../policies/ceilings.ts";
import type { CompiledPolicy, CompiledRule } from "../policies/compiled-policy.ts";
import {
  candidateSize,
  describeLowerBound,
  holdForFailure,
  lowerBound,
  lowest,
  minAvailableBytes,
  namesSize,
  roundDownToMiB,
  roundUpToMiB,
  sizeForCapacity,
  type UpperBound,
  upperBound,
} from "../sizing/sizes.ts";
import { admit } from "./cooldowns.ts";
import { isFlap } from "./flaps.ts";
import { AHEAD_MS, aheadOf } from "./growth-ahead.ts";
import { effectiveMode, FREE, mayNeedApproval, modeAbove } from "./modes.ts";
import type { HoldPlan, Plan, VainExtend } from "./plan.ts";
import type { EffectiveMode, Question, WantedChange } from "./question.ts";
import type { RuleFailure } from "./rule-round.ts";
import { isVain, stands, vainExtendBy } from "./vain-extends.ts";

/** One reason to be larger. */
interface Candidate {
  readonly reason: ChangeReason;
  readonly mode: EffectiveMode;
  /** The policy's approveAbove holds it, too: what it asks for beyond needs an approval. */
  readonly isBounded: boolean;
  readonly rule: CompiledRule | undefined;
  readonly sizeBytes: number;
  readonly because: string;
  readonly urgent: boolean;
  /** What it has to end at, besides the bounds of all. */
  readonly limit?: UpperBound | undefined;
  readonly vainExtend?: VainExtend | undefined;
}

/** Extends to a raised request: the claim's own promise, with or without a policy. */
export function extendAsRequested(question: Question): Plan | undefined {
  return extendTo(question, [candidateOfRequest(question)]);
}

/** Extends to limits.min: what a user wrote down needs no measurement. */
export function extendAsDeclared(question: Question): Plan | undefined {
  return extendTo(question, [candidateOfMinimum(question)]);
}

/** What extends on good measurements. Undefined: nothing asks for it. */
export function extendAsMeasured(question: Question): Plan | undefined {
  const { candidates, failure, vain, early } = candidatesOfRules(question);
  const plan = extendTo(question, [candidateOfMinimum(question), ...candidatesOfMinAvailable(question), ...candidates]);
  return (
    plan ??
    (failure && holdForFailure(question, failure)) ??
    (vain && holdInVain(question, vain)) ??
    (early && holdEarly(question, early))
  );
}

/** Extends when minAvailable is crossed, and for nothing else: what may cancel a running shrink. */
export function extendForMinAvailable(question: Question): Plan | undefined {
  return extendTo(question, candidatesOfMinAvailable(question));
}

/** Without an approval no more than this is guarded, and given once again: minAvailable is its policy's author's to write. */
const UNAPPROVED_CAPACITY_RATIO = 0.2;

/** What a policy that needs approvals guards without one, bytes available. */
export function unapprovedBytes(wantedBytes: number, capacityBytes: number): number {
  return Math.min(wantedBytes, Math.floor(UNAPPROVED_CAPACITY_RATIO * capacityBytes));
}

/** The size at which twice that is available. */
export function unapprovedSize(question: Question, usedBytes: number, guardedBytes: number): number {
  return sizeForCapacity(question, usedBytes + 2 * guardedBytes);
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

function candidateOfRequest({ facts }: Question): Candidate | undefined {
  const { raisedRequestBytes: requestBytes } = facts.claim;
  if (requestBytes === undefined || !(requestBytes > facts.filesystem.sizeBytes)) return undefined;
  const because = `the claim's request was raised to ${formatBytes(requestBytes)}`;
  const asked = { rule: undefined, sizeBytes: requestBytes, because, urgent: true };
  return { reason: "RequestRaised", mode: FREE, isBounded: false, ...asked };
}

function candidateOfMinimum(question: Question): Candidate | undefined {
  const { facts, policy } = question;
  if (policy === undefined || policy.problems.length > 0) return undefined;
  const minBytes = lowerBound(question);
  if (facts.filesystem.sizeBytes >= minBytes) return undefined;
  const because = `the size is under ${describeLowerBound(question)}`;
  const mode = effectiveMode(question, "extend", undefined);
  return { reason: "BelowMinimum", mode, isBounded: true, rule: undefined, sizeBytes: minBytes, because, urgent: true };
}

// A full disk is a loss, and an approval may come hours later: what may need one has a second candidate, which is smaller and needs none.
function candidatesOfMinAvailable(question: Question): Candidate[] {
  const { facts, policy } = question;
  const { reading } = facts.filesystem;
  if (reading === undefined || policy?.guardsMinAvailable !== true) return [];
  const { usedBytes, availableBytes, capacityBytes } = reading;
  const wantedBytes = minAvailableBytes(policy.limits, capacityBytes, reading.growthBytesPerSecond);
  if (availableBytes >= wantedBytes) return [];
  const mode = effectiveMode(question, "extend", undefined);
  const because = `${formatBytes(availableBytes)} are available, fewer than minAvailable (${formatBytes(wantedBytes)})`;
  const same = { reason: "BelowMinAvailable", rule: undefined, because, urgent: true } as const;
  const sizeBytes = relievedSize(question, policy, usedBytes, wantedBytes);
  const whole: Candidate = { ...same, mode, isBounded: true, sizeBytes };
  const guardedBytes = unapprovedBytes(wantedBytes, capacityBytes);
  const isFree = policy.growsInEmergencies && mayNeedApproval(question) && availableBytes < guardedBytes;
  if (!isFree) return [whole];
  const freeBytes = unapprovedSize(question, usedBytes, guardedBytes);
  return [whole, { ...same, mode: FREE, isBounded: false, sizeBytes: freeBytes }];
}

interface RuleCandidates {
  readonly candidates: readonly Candidate[];
  readonly failure: RuleFailure | undefined;
  /** One that waits since its extend did not help. */
  readonly vain: CompiledRule | undefined;
  /** One on growth that goes too far before those on the level. */
  readonly early: CompiledRule | undefined;
}

function candidatesOfRules(question: Question): RuleCandidates {
  const { facts, policy } = question;
  if (policy === undefined || (facts.metricsStale && policy.onStaleMetrics === "Hold")) return NO_CANDIDATES;
  if (isPaused(facts)) return NO_CANDIDATES;
  const rules = question.firingRules("Extend");
  if (rules.length === 0) return NO_CANDIDATES;
  const candidates: Candidate[] = [];
  let failure: RuleFailure | undefined;
  let vain: CompiledRule | undefined;
  let early: CompiledRule | undefined;
  for (const rule of rules) {
    const candidate = candidateOfFiring(question, policy, rule);
    if (candidate === "in vain") vain ??= rule;
    else if (candidate === "early") early ??= rule;
    else if ("kind" in candidate) failure ??= candidate;
    else candidates.push(candidate);
  }
  return { candidates, failure, vain, early };
}

const NO_CANDIDATES: RuleCandidates = { candidates: [], failure: undefined, vain: undefined, early: undefined };

function candidateOfFiring(
  question: Question,
  policy: CompiledPolicy,
  rule: CompiledRule,
): Candidate | RuleFailure | "in vain" | "early" {
  const { facts } = question;
  const ahead = aheadOf(facts, policy, rule);
  if (ahead?.isEarly === true) return "early";
  const wantedSize = candidateSize(question, rule, ahead?.usedBytes ?? facts.filesystem.reading?.usedBytes ?? 0);
  if (typeof wantedSize !== "number") return wantedSize;
  const candidate = candidateOfRule(question, policy, rule, wantedSize);
  if (!isVain(facts, rule, candidate.sizeBytes)) return candidate;
  if (stands(facts, policy, rule)) return "in vain";
  return { ...candidate, vainExtend: vainExtendBy(facts, policy, rule, candidate.sizeBytes) };
}

function holdInVain(question: Question, rule: CompiledRule): Plan {
  return question.hold(
    "ExtendDidNotHelp",
    `${rule.name} still holds after its extend, and would at 8 times the size: compare what grows with the size; asked again when more is in use`,
    { rule: rule.name },
  );
}

function holdEarly(question: Question, rule: CompiledRule): Plan {
  return question.hold(
    "RulePending",
    `${rule.name} holds by growth, but no rule on the level would within ${formatDuration(AHEAD_MS)}, or there was just an extend`,
    { rule: rule.name },
  );
}

// At least a step: a rule on inodes or on growth may fire while its targetUsed asks for less than there is.
function candidateOfRule(
  question: Question,
  policy: CompiledPolicy,
  rule: CompiledRule,
  candidateBytes: number,
): Candidate {
  const { reading, sizeBytes } = question.facts.filesystem;
  const atLeast = namesSize(rule) ? 0 : sizeBytes + policy.extend.minStepBytes;
  const because =
    reading === undefined
      ? "the rule holds"
      : `${formatPercent(reading.usedBytes / reading.capacityBytes)} of ${formatBytes(reading.capacityBytes)} is used`;
  const mode = effectiveMode(question, "extend", rule);
  const wantedBytes = Math.max(candidateBytes, atLeast);
  return { reason: "RuleFired", mode, isBounded: true, rule, sizeBytes: wantedBytes, because, urgent: false };
}

/** From the strictest on: what may be done without an approval is done while what needs one waits. */
const FREEDOMS = [freedom("Recommend"), freedom("Approve"), freedom("Enforce")];

// Of what the modes allow the largest size wins. Where all of it waits, what the largest of all waits for is the reason to show.
function extendTo(question: Question, candidates: readonly (Candidate | undefined)[]): Plan | undefined {
  const asked = candidates.flatMap((candidate) => (candidate === undefined ? [] : byApproveAbove(question, candidate)));
  let held: HoldPlan | undefined;
  let before = 0;
  for (const least of FREEDOMS) {
    const pool = asked.filter(({ mode }) => freedom(mode.mode) >= least);
    if (pool.length === 0 || pool.length === before) continue;
    before = pool.length;
    const plan = extendToLargest(question, pool);
    if (plan.kind !== "hold") return plan;
    // What is only recommended is never made: what waits for an approval may be.
    const isNearer = held?.reason === "RecommendOnly" && plan.awaits !== undefined;
    if (held === undefined || isNearer) held = plan;
  }
  return held;
}

// That one of them is urgent makes the whole change urgent, and is the reason to show. The mode is that of the size.
function extendToLargest(question: Question, pool: readonly Candidate[]): Plan {
  const largest = pool.reduce((a, b) => (wantedOf(b) > wantedOf(a) ? b : a));
  const shown = pool.find((candidate) => candidate.urgent) ?? largest;
  const { sizeBytes, mode, limit, vainExtend } = largest;
  return boundedExtend(question, { ...shown, sizeBytes, mode, limit, vainExtend });
}

function wantedOf({ sizeBytes, limit }: Candidate): number {
  return Math.min(sizeBytes, limit?.bytes ?? Number.POSITIVE_INFINITY);
}

/** What an enforced extend asks for beyond the policy's approveAbove, and what it may have up to there, which needs no approval. */
function byApproveAbove({ policy, facts }: Question, candidate: Candidate): Candidate[] {
  const bytes = policy?.approveAboveBytes;
  const isWithin = bytes === undefined || roundUpToMiB(candidate.sizeBytes) <= bytes;
  if (isWithin || !candidate.isBounded || candidate.mode.mode !== "Enforce") return [candidate];
  const above = { ...candidate, mode: modeAbove(candidate.mode, bytes) };
  if (roundDownToMiB(bytes) <= facts.filesystem.sizeBytes) return [above];
  const limit: UpperBound = { bytes, reason: "AtMaximum", text: `approveAbove (${formatBytes(bytes)})` };
  return [above, { ...candidate, limit }];
}

function boundedExtend(question: Question, candidate: Candidate): Plan {
  const fromBytes = question.facts.filesystem.sizeBytes;
  const uncappedBytes = roundUpToMiB(candidate.sizeBytes);
  const details = { rule: candidate.rule?.name, uncappedBytes };
  const bound = lowest([upperBound(question), ...(candidate.limit === undefined ? [] : [candidate.limit])]);
  if (roundDownToMiB(bound.bytes) <= fromBytes)
    return question.hold(
      bound.reason,
      `${candidate.because}, and the size of ${formatBytes(fromBytes)} is at ${bound.text}`,
      details,
    );
  const minStepBytes = minStepOf(question, candidate);
  if (uncappedBytes - fromBytes < minStepBytes)
    return question.hold(
      "StepTooSmall",
      `${candidate.because}; ${stepText(fromBytes, uncappedBytes, minStepBytes)}`,
      details,
    );
  return admit(question, capped(question, candidate, uncappedBytes, bound));
}

// Only a rule that names its size can ask for less than a step; what is urgent never waits for one.
function minStepOf({ policy }: Question, candidate: Candidate): number {
  return candidate.urgent || policy === undefined ? 1 : policy.extend.minStepBytes;
}

function stepText(fromBytes: number, uncappedBytes: number, minStepBytes: number): string {
  const asked = `the size asked for is ${formatBytes(uncappedBytes)}`;
  if (uncappedBytes <= fromBytes) return `${asked}, no more than there is`;
  return `${asked}, ${formatBytes(uncappedBytes - fromBytes)} more than there is and less than minStep (${formatBytes(minStepBytes)})`;
}

function isByUse({ reason }: Candidate): boolean {
  return reason === "RuleFired" || reason === "BelowMinAvailable";
}

function capped(question: Question, candidate: Candidate, uncappedBytes: number, bound: UpperBound): WantedChange {
  const maxStepBytes = question.policy?.extend.maxStepBytes ?? Number.POSITIVE_INFINITY;
  const stepBytes = question.facts.filesystem.sizeBytes + maxStepBytes;
  const sizeBytes = Math.min(uncappedBytes, roundDownToMiB(bound.bytes), stepBytes);
  const byStep = stepBytes < bound.bytes ? `maxStep (${formatBytes(maxStepBytes)})` : bound.text;
  return {
    direction: "extend",
    mode: candidate.mode,
    reason: candidate.reason,
    rule: candidate.rule,
    uncappedBytes,
    sizeBytes,
    because: candidate.because,
    cappedBy: sizeBytes < uncappedBytes ? byStep : undefined,
    urgent: candidate.urgent,
    flap: isByUse(candidate) && question.policy !== undefined && isFlap(question.facts, question.policy),
    vainExtend: candidate.vainExtend,
  };
}
