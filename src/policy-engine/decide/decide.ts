// What should become of one volume: the product in one list. Pure and total: it reads nothing but its arguments, never throws on
// them, and every answer, "leave it" included, has a public reason.
import { PAUSED_UNTIL_ANNOTATION } from "../../contracts/names.ts";
import { withDetail } from "../../contracts/printable.ts";
import { formatDuration } from "../../contracts/quantities/duration.ts";
import { formatBytes } from "../../contracts/quantities/quantity.ts";
import type { HoldReason } from "../../contracts/reasons.ts";
import { claimKey, type Facts, type ShrinkUnderWay } from "../facts/facts.ts";
import { differenceOfClocks, unreliableFigures, unreliableReading, unreliableRecords } from "../facts/measurements.ts";
import { pauseOf } from "../facts/pause.ts";
import { predictSize } from "../facts/prediction.ts";
import type { Ceilings } from "../policies/ceilings.ts";
import { type CompiledPolicy, problemText } from "../policies/compiled-policy.ts";
import { forbiddenClass, holdForFailure } from "../sizing/sizes.ts";
import { consolidationRuns, fewerMembersAreWanted } from "./consolidate.ts";
import { closedUntil } from "./cooldowns.ts";
import { extendAsDeclared, extendAsMeasured, extendAsRequested, extendForMinAvailable } from "./extend.ts";
import { approvalOf, effectiveMode } from "./modes.ts";
import type { HoldPlan, Plan } from "./plan.ts";
import { type EffectiveMode, Question } from "./question.ts";
import { shrinkAsMeasured } from "./shrink.ts";

/** A check answers with a plan, or leaves the answer to the next one. */
type Check = (question: Question) => Plan | undefined;

/** Order matters: the first check that answers is the explanation that the user reads. */
const CHECKS: readonly Check[] = [
  claimIsDeleting,
  recordsAreImpossible,
  resizeIsInfeasible,
  filesystemIsReadOnly,
  operationRuns,
  requestIsRaised, // the claim's own promise: no policy is needed for it, and none stands against it
  nothingFills,
  awaitedShrinkIsWithdrawn,
  nobodyDecides,
  claimIsNotOptedIn,
  anotherAutoscalerActs,
  policyIsSuspended,
  classIsForbidden,
  readingIsUnreliable,
  largerIsWanted, // any Extend beats every Shrink
  stopUnwantedShrink,
  policyIsInvalid,
  claimIsPaused,
  ruleEvaluationFailed,
  pauseIsUnreadable,
  metricsAreStale, // from here on only shrinks remain, and where facts are uncertain nothing shrinks
  clocksDiffer,
  consolidationRuns,
  replacementRuns,
  smallerIsWanted,
  ruleStillWaits,
];

/** The plan for one volume. `policy` is undefined where none selects the claim. */
export function decide(facts: Facts, policy: CompiledPolicy | undefined, ceilings: Ceilings): Plan {
  const question = new Question(facts, policy, ceilings);
  for (const check of CHECKS) {
    const plan = check(question);
    if (plan !== undefined) return plan;
  }
  return policy?.withinBounds ?? noPolicy(question);
}

function claimIsDeleting(question: Question): Plan | undefined {
  const { claim } = question.facts;
  return claim.deleting ? question.hold("Deleting", `claim ${claimKey(claim)} is being deleted`) : undefined;
}

function recordsAreImpossible(question: Question): Plan | undefined {
  const doubt = unreliableRecords(question.facts);
  return doubt && question.hold(doubt.reason, doubt.message);
}

// The driver tries on by itself, and a larger request would be refused like the one that stands.
function resizeIsInfeasible(question: Question): Plan | undefined {
  const { infeasibleResize } = question.facts.claim;
  return infeasibleResize === undefined
    ? undefined
    : question.hold(
        "ResizeInfeasible",
        `${infeasibleResize}; nothing more is asked for until the driver or the request changes`,
      );
}

// Its node starts nothing, whatever is asked for, and what runs fails. Only a shrink that is no longer wanted is called off.
function filesystemIsReadOnly(question: Question): Plan | undefined {
  const { readOnly } = question.facts.filesystem;
  return readOnly === undefined ? undefined : (stopUnwantedShrink(question) ?? question.hold("ReadOnly", readOnly));
}

// Two things are still decided: a writer that would run out of space even with the shrink rolled back, and a shrink that is no longer
// wanted.
function operationRuns(question: Question): Plan | undefined {
  const { operationInProgress: running } = question.facts.filesystem;
  if (running === undefined) return undefined;
  const preempting = running === "Shrink" ? extendBeyondShrink(question) : undefined;
  return (
    preempting ??
    stopUnwantedShrink(question) ??
    question.hold("OperationInProgress", `${running} is running; rules are asked again when it has ended`)
  );
}

function extendBeyondShrink({ facts, policy, ceilings }: Question): Plan | undefined {
  const { reading } = facts.filesystem;
  if (policy === undefined || policy.suspended || reading === undefined) return undefined;
  if (unreliableFigures(facts.monotonicMs, reading) !== undefined) return undefined;
  const question = new Question(rolledBack(facts), policy, ceilings);
  const plan = classIsForbidden(question) ?? extendForMinAvailable(question);
  return plan?.kind === "extend" ? plan : undefined;
}

// Once rolled back, the filesystem shows its members' whole size again.
function rolledBack(facts: Facts): Facts {
  const { sizeBytes, reading } = facts.filesystem;
  if (reading === undefined || reading.capacityBytes > sizeBytes) return facts;
  const whole = { ...facts, filesystem: { ...facts.filesystem, sizeBytes: reading.capacityBytes } };
  return predictSize(whole, sizeBytes, 1);
}

function requestIsRaised(question: Question): Plan | undefined {
  return extendAsRequested(question);
}

// Only the pod understands what it writes to a device of its own.
function nothingFills(question: Question): Plan | undefined {
  if (question.facts.claim.volumeMode !== "Block") return undefined;
  return question.hold(
    "RawBlockVolume",
    "a raw block volume (volumeMode: Block) has no fill level that a policy could follow: only a raised request extends it",
  );
}

// Its node has not begun it, and would do so later: a replacement's new member is minutes on its way.
function awaitedShrinkIsWithdrawn(question: Question): Plan | undefined {
  const { policy } = question;
  return policy === undefined || policy.suspended ? stopUnwantedShrink(question) : undefined;
}

function nobodyDecides(question: Question): Plan | undefined {
  return question.policy === undefined ? noPolicy(question) : undefined;
}

function noPolicy(question: Question): Plan {
  return question.hold("NoPolicy", "no policy selects the claim: its size stays");
}

// A policy that decides a claim of another driver has to opt it in.
function claimIsNotOptedIn(question: Question): Plan | undefined {
  const { facts, policy } = question;
  if (facts.claim.backend !== "claim" || policy?.claimBackend === "Enabled") return undefined;
  return question.hold(
    "ClaimBackendDisabled",
    `set spec.claimBackend of policy ${policy?.key} to Enabled: another driver provides the claim`,
  );
}

function anotherAutoscalerActs(question: Question): Plan | undefined {
  const { otherAutoscaler } = question.facts.claim;
  if (otherAutoscaler === undefined) return undefined;
  return question.hold(
    "OtherAutoscaler",
    `the claim has ${otherAutoscaler}, by which another autoscaler raises its request: take it away, or the policy`,
  );
}

function policyIsSuspended(question: Question): Plan | undefined {
  if (question.policy?.suspended !== true) return undefined;
  return question.hold(
    "PolicySuspended",
    `policy ${question.policy.key} is suspended: set spec.suspend to false to go on`,
  );
}

function classIsForbidden(question: Question): Plan | undefined {
  const message = forbiddenClass(question);
  return message === undefined ? undefined : question.hold("CeilingReached", message);
}

// What people have written down needs no measurement.
function readingIsUnreliable(question: Question): Plan | undefined {
  const doubt = unreliableReading(question.facts);
  return doubt && (extendAsDeclared(question) ?? question.hold(doubt.reason, doubt.message));
}

// Where one that is wanted has to wait, a shrink that is no longer wanted is called off all the same.
function largerIsWanted(question: Question): Plan | undefined {
  const plan = extendAsMeasured(question);
  return plan?.kind === "hold" ? (stopUnwantedShrink(question) ?? plan) : plan;
}

function policyIsInvalid(question: Question): Plan | undefined {
  const [problem] = question.policy?.problems ?? [];
  if (problem === undefined) return undefined;
  const message = withDetail(`policy ${question.policy?.key}`, problemText(problem));
  return question.hold("PolicyInvalid", message);
}

// After what is urgent. The rules are asked all the same: their `for` goes on, and people read what waits.
function claimIsPaused(question: Question): Plan | undefined {
  const pause = pauseOf(question.facts);
  if (pause?.kind !== "Paused") return undefined;
  const [rule] = [...question.firingRules("Extend"), ...question.firingRules("Shrink")];
  const waits = rule === undefined ? "" : `; ${rule.name} holds and waits`;
  const message = `paused until ${timeText(pause.untilMs)} by ${PAUSED_UNTIL_ANNOTATION}; minAvailable and requests still extend${waits}`;
  return question.hold("Paused", message, { rule: rule?.name, nextEligibleMs: pause.untilMs });
}

function pauseIsUnreadable(question: Question): Plan | undefined {
  const pause = pauseOf(question.facts);
  return pause?.kind === "Unreadable" ? question.hold("PauseUnreadable", pause.message) : undefined;
}

function timeText(wallMs: number): string {
  return new Date(wallMs).toISOString().replace(/\.000Z$/, "Z");
}

function ruleEvaluationFailed(question: Question): Plan | undefined {
  const { failure } = question.round;
  return failure && holdForFailure(question, failure);
}

function metricsAreStale(question: Question): Plan | undefined {
  if (!question.facts.metricsStale || question.round.held === 0) return undefined;
  return question.hold(
    "StaleMetrics",
    `Prometheus gives no fresh answer: nothing shrinks, and onStaleMetrics is ${question.policy?.onStaleMetrics}`,
  );
}

// Holds what would make it smaller, and nothing else: it is what the checks after this one say.
function clocksDiffer(question: Question): Plan | undefined {
  const { node, filesystem } = question.facts;
  const difference = filesystem.reading && differenceOfClocks(filesystem.reading);
  if (difference === undefined) return undefined;
  const plan = consolidationRuns(question) ?? smallerIsWanted(question);
  if (plan?.kind !== "shrink") return plan;
  const { rule, uncappedBytes } = plan;
  const message = `set the clocks right: that of node ${node?.name ?? "unknown"} ${difference}; until then nothing shrinks`;
  return question.hold("ClockDiffers", message, { rule, uncappedBytes });
}

// A new target would release the member that is being made for the present one, and have another made.
function replacementRuns(question: Question): Plan | undefined {
  const { replacement } = question.facts.filesystem;
  return replacement === undefined ? undefined : question.hold("OperationInProgress", replacement);
}

function smallerIsWanted(question: Question): Plan | undefined {
  const shrink = shrinkAsMeasured(question);
  // A shrink makes it have fewer members by itself; where none is to be had, merging them may be.
  return shrink?.kind === "shrink" ? shrink : (fewerMembersAreWanted(question) ?? shrink);
}

function ruleStillWaits(question: Question): Plan | undefined {
  const [rule] = [...question.heldRules("Extend"), ...question.heldRules("Shrink")];
  if (rule === undefined) return undefined;
  const nextEligibleMs = question.facts.nowMs + rule.forMs - question.heldForMs(rule);
  return question.hold("RulePending", `${rule.name} holds, but not yet for ${formatDuration(rule.forMs)}`, {
    rule: rule.name,
    nextEligibleMs,
  });
}

// Whether a shrink that runs, or was decided and has not started, is still wanted. People stop one by deleting or suspending its policy, by
// a mode that does not enforce shrinks, or by pausing the claim, and an approval ends by its time, or with it, and the window of a shrink: it
// ends after its step, and what was reached stays.

/** Undefined: it is still wanted, or no policy has asked for it. */
function stopUnwantedShrink(question: Question): HoldPlan | undefined {
  const { policyShrink, operationInProgress } = question.facts.filesystem;
  if (policyShrink === undefined) return undefined;
  const withdrawal = withdrawalOf(question);
  if (withdrawal === undefined) return undefined;
  // What runs may be the extend that takes in a larger member first.
  const stopped =
    operationInProgress === "Shrink"
      ? "the shrink that runs ends after its step, and the size stays as far as it has come"
      : "the decided shrink does not begin";
  const message = `${withdrawal.because}: ${stopped}`;
  // Asked once: each further word would only be another write.
  const { reason, nextEligibleMs } = withdrawal;
  return question.hold(reason, message, { stopsShrink: policyShrink === "Running", nextEligibleMs });
}

interface Withdrawal {
  readonly reason: HoldReason;
  readonly because: string;
  readonly nextEligibleMs?: number | undefined;
}

function withdrawalOf(question: Question): Withdrawal | undefined {
  const { policy, facts } = question;
  if (policy === undefined) return { reason: "NoPolicy", because: "no policy selects the claim" };
  if (policy.suspended) return { reason: "PolicySuspended", because: `policy ${policy.key} is suspended` };
  const { mode, by } = modeOfShrink(question, policy, facts.filesystem.shrinkUnderWay);
  if (mode === "Recommend") return { reason: "RecommendOnly", because: `the mode of shrinks is Recommend${by}` };
  return unapproved(question, { mode, by }) ?? pauseWithdrawal(facts) ?? windowWithdrawal(policy, facts);
}

function unapproved({ facts }: Question, { mode, by }: EffectiveMode): Withdrawal | undefined {
  const { shrinkUnderWay: shrink } = facts.filesystem;
  if (mode === "Enforce") return undefined;
  if (shrink === undefined) return { reason: "ApprovalRequired", because: `the mode of shrinks is Approve${by}` };
  if (approvalOf(facts, { action: "Shrink", sizeBytes: shrink.sizeBytes }) !== undefined) return undefined;
  const because = `no ScalingApproval covers the shrink to ${formatBytes(shrink.sizeBytes)}${by}`;
  return { reason: "ApprovalRequired", because };
}

function pauseWithdrawal(facts: Facts): Withdrawal | undefined {
  const pause = pauseOf(facts);
  if (pause?.kind === "Paused") {
    const nextEligibleMs = pause.untilMs;
    return { reason: "Paused", because: `the claim is paused until ${timeText(nextEligibleMs)}`, nextEligibleMs };
  }
  return pause && { reason: "PauseUnreadable", because: `correct ${PAUSED_UNTIL_ANNOTATION}` };
}

function windowWithdrawal(policy: CompiledPolicy, { nowMs }: Facts): Withdrawal | undefined {
  const closed = closedUntil(policy.shrink, nowMs);
  return (
    closed && { reason: "OutsideWindow", because: "the window of shrinks is over", nextEligibleMs: closed.opensMs }
  );
}

// Of a rule that is gone it is unknown what it was free to do: no more than its policy, and nothing without an approval.
function modeOfShrink(question: Question, policy: CompiledPolicy, shrink: ShrinkUnderWay | undefined): EffectiveMode {
  if (shrink?.rule === undefined || shrink.policy !== policy.key) return effectiveMode(question, "shrink", undefined);
  const rules = policy.formerRules ?? policy.rules;
  const rule = rules.find(({ name, action }) => name === shrink.rule && action === "Shrink");
  const known = effectiveMode(question, "shrink", rule);
  if (rule !== undefined || known.mode !== "Enforce") return known;
  return { mode: "Approve", by: `, since its rule ${shrink.rule} is gone` };
}
