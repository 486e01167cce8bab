// What an agent gets ahead of need: how far it may grow a filesystem by itself, and what it has to look out for.
import { EMERGENCY_LIFE_MS } from "../../contracts/kinds/grant.ts";
import type { Facts } from "../facts/facts.ts";
import { unreliableReading, unreliableRecords } from "../facts/measurements.ts";
import { predictUse } from "../facts/prediction.ts";
import type { Ceilings } from "../policies/ceilings.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import {
  candidateSize,
  forbiddenClass,
  minAvailableBytes,
  roundDownToMiB,
  roundUpToMiB,
  upperBound,
  writtenBound,
} from "../sizing/sizes.ts";
import { relievedSize, unapprovedBytes, unapprovedSize } from "./extend.ts";
import { aheadOf } from "./growth-ahead.ts";
import { actsByRules, effectiveMode, isEnforcedAnywhere, mayNeedApproval } from "./modes.ts";
import { Question } from "./question.ts";
import { scopeOf } from "./rule-round.ts";
import { stands } from "./vain-extends.ts";

// How far the agent may grow a filesystem by itself, at once, with engine, API server and Prometheus down: granted in advance,
// never more than the engine itself would do at the moment that minAvailable is crossed.

export interface Emergency {
  /** The agent may grow up to this size of the members. */
  readonly sizeBytes: number;
  /** It does so when fewer bytes are available. */
  readonly minAvailableBytes: number;
  readonly expiresInMs: number;
}

/**
 * Whether the facts of this instant say nothing about the grant: an operation runs, or the readings cannot be believed. A grant
 * that stands then stays as it is, up to the grantLimit, since this is when it is needed most.
 */
export function isGrantUncertain(facts: Facts): boolean {
  return (
    facts.filesystem.operationInProgress !== undefined ||
    (unreliableRecords(facts) ?? unreliableReading(facts)) !== undefined
  );
}

/** The grant for one volume; undefined: the agent may not grow it by itself. Ask isGrantUncertain before taking one back. */
export function emergencyGrant(
  facts: Facts,
  policy: CompiledPolicy | undefined,
  ceilings: Ceilings,
): Emergency | undefined {
  const question = new Question(facts, policy, ceilings);
  if (policy === undefined || !mayExtend(question, policy)) return undefined;
  const { reading, sizeBytes: fromBytes } = facts.filesystem;
  if (reading === undefined || isGrantUncertain(facts)) return undefined;
  const guardedBytes = minAvailableBytes(policy.limits, reading.capacityBytes, reading.growthBytesPerSecond);
  const needsApproval = mayNeedApproval(question);
  const atBytes = needsApproval ? unapprovedBytes(guardedBytes, reading.capacityBytes) : guardedBytes;
  const crossing = new Question(predictUse(facts, Math.max(0, reading.capacityBytes - atBytes)), policy, ceilings);
  const stepBytes = needsApproval ? unapprovedStep(crossing, policy, atBytes) : stepSize(crossing, policy, atBytes);
  const wantedBytes = roundUpToMiB(stepBytes);
  const sizeBytes = Math.min(
    wantedBytes,
    roundDownToMiB(upperBound(question).bytes),
    fromBytes + policy.extend.maxStepBytes,
  );
  return sizeBytes > fromBytes ? { sizeBytes, minAvailableBytes: atBytes, expiresInMs: EMERGENCY_LIFE_MS } : undefined;
}

/**
 * The largest grant that policy, ceilings and class allow, whatever is measured; 0: none. It bounds a standing grant while the facts are
 * uncertain: a lower max, and a suspended or deleted policy, take the grant back.
 */
export function grantLimit(facts: Facts, policy: CompiledPolicy | undefined, ceilings: Ceilings): number {
  const question = new Question(facts, policy, ceilings);
  if (policy === undefined || !mayExtend(question, policy)) return 0;
  const writtenBytes = writtenBound(question).bytes;
  if (!mayNeedApproval(question)) return roundDownToMiB(writtenBytes);
  // No more than is taken without an approval: what stands may be of a freer mode.
  const enforcedBytes = isEnforcedAnywhere(question) ? (policy.approveAboveBytes ?? Number.POSITIVE_INFINITY) : 0;
  const unapproved = UNAPPROVED_GROWTH_RATIO * facts.filesystem.sizeBytes;
  return roundDownToMiB(Math.min(writtenBytes, Math.max(enforcedBytes, unapproved)));
}

/** Twice a fifth of the capacity on top of all of it: at most what is given without an approval, whatever was in use. */
const UNAPPROVED_GROWTH_RATIO = 1.4;

function mayExtend(question: Question, policy: CompiledPolicy): boolean {
  const { facts } = question;
  if (policy.suspended || !policy.guardsMinAvailable || facts.claim.deleting || !policy.growsInEmergencies)
    return false;
  // What a claim is given comes from its own driver: no node can do that by itself.
  if (facts.claim.backend === "claim" || forbiddenClass(question) !== undefined) return false;
  return effectiveMode(question, "extend", undefined).mode !== "Recommend" || actsByRules(question);
}

// One step of the policy: as its Extend rules would size it at the crossing, whichever of them fires.
function stepSize(crossing: Question, policy: CompiledPolicy, atBytes: number): number {
  const usedBytes = crossing.facts.filesystem.reading?.usedBytes ?? 0;
  return Math.max(relievedSize(crossing, policy, usedBytes, atBytes), ...sizesByRules(crossing, policy, usedBytes));
}

// An agent takes nothing that needs an approval: the least that is guarded without one, or what is enforced up to approveAbove.
function unapprovedStep(crossing: Question, policy: CompiledPolicy, atBytes: number): number {
  const usedBytes = crossing.facts.filesystem.reading?.usedBytes ?? 0;
  const isEnforced = effectiveMode(crossing, "extend", undefined).mode === "Enforce";
  const relieved = isEnforced ? [relievedSize(crossing, policy, usedBytes, atBytes)] : [];
  const mostBytes = roundDownToMiB(policy.approveAboveBytes ?? Number.POSITIVE_INFINITY);
  const enforced = [...relieved, ...sizesByRules(crossing, policy, usedBytes)].map((bytes) =>
    Math.min(bytes, mostBytes),
  );
  return Math.max(unapprovedSize(crossing, usedBytes, atBytes), ...enforced);
}

/** Of the Extend rules that are enforced. */
function sizesByRules(crossing: Question, policy: CompiledPolicy, usedBytes: number): number[] {
  return policy.rules
    .filter((rule) => rule.action === "Extend" && effectiveMode(crossing, "extend", rule).mode === "Enforce")
    .map((rule) => candidateSize(crossing, rule, usedBytes))
    .filter((size) => typeof size === "number");
}

// From how many used bytes on a filesystem would be extended: what an agent needs to know to sample as often as it must, and no
// more often.

/** Halvings: the answer is at most 1/1024 of the available bytes too high, and never above minAvailable's crossing. */
const MAX_HALVINGS = 10;
const PRECISION_RATIO = 2 ** -MAX_HALVINGS;

/**
 * The lowest usedBytes, at the present capacity and growth, at which an Extend rule holds or minAvailable is crossed. Undefined
 * where there is nothing to look out for: no policy, no reading, or no room to extend into. Assumes that a rule which holds at
 * some use holds above it too. What was `knownBytes` before is given again where it is still right, which costs three questions to the
 * rules instead of eleven.
 */
export function nextExtendUsedBytes(
  facts: Facts,
  policy: CompiledPolicy | undefined,
  ceilings: Ceilings,
  knownBytes?: number,
): number | undefined {
  const { reading, sizeBytes } = facts.filesystem;
  if (policy === undefined || policy.suspended || reading === undefined || !(reading.capacityBytes > 0))
    return undefined;
  const bound = upperBound(new Question(facts, policy, ceilings));
  if (!(roundDownToMiB(bound.bytes) > sizeBytes)) return undefined;
  const guardBytes = policy.guardsMinAvailable
    ? minAvailableBytes(policy.limits, reading.capacityBytes, reading.growthBytesPerSecond)
    : 0;
  const crossingBytes = Math.max(0, reading.capacityBytes - guardBytes);
  if (reading.usedBytes >= crossingBytes) return crossingBytes;
  if (wouldExtend(facts, policy, reading.usedBytes)) return reading.usedBytes;
  const precisionBytes = Math.max(1, (crossingBytes - reading.usedBytes) * PRECISION_RATIO);
  const isFiring = (usedBytes: number): boolean => usedBytes >= crossingBytes || wouldExtend(facts, policy, usedBytes);
  if (knownBytes !== undefined && knownBytes > reading.usedBytes && knownBytes <= crossingBytes) {
    const quietBytes = Math.floor(knownBytes - precisionBytes);
    if (isFiring(knownBytes) && (quietBytes <= reading.usedBytes || !isFiring(quietBytes))) return knownBytes;
  }
  let [quietBytes, firingBytes] = [reading.usedBytes, crossingBytes];
  for (let i = 0; i < MAX_HALVINGS && firingBytes - quietBytes > 1; i += 1) {
    const middleBytes = Math.floor((quietBytes + firingBytes) / 2);
    if (wouldExtend(facts, policy, middleBytes)) firingBytes = middleBytes;
    else quietBytes = middleBytes;
  }
  return firingBytes;
}

function wouldExtend(facts: Facts, policy: CompiledPolicy, usedBytes: number): boolean {
  const predicted = predictUse(facts, usedBytes);
  const scope = scopeOf(predicted);
  return policy.rules.some((rule) => {
    // A rule that waits since larger does not help it is nothing to look out for.
    if (rule.action !== "Extend" || stands(facts, policy, rule)) return false;
    const result = rule.when.evaluate(scope);
    return result.ok && result.value && aheadOf(predicted, policy, rule)?.isEarly !== true;
  });
}
