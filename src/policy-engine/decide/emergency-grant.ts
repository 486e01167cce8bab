// How far the agent may grow a filesystem by itself, at once, with engine, API server and Prometheus down: granted in advance,
// never more than the engine itself would do at the moment that minAvailable is crossed.
import { EMERGENCY_LIFE_MS } from "../../api/emergency-life.ts";
import type { Facts } from "../facts/facts.ts";
import { doubtReading, doubtRecords } from "../facts/measurements.ts";
import { predictUse } from "../facts/prediction.ts";
import type { Ceilings } from "../policies/ceilings.ts";
import { freedom } from "../policies/ceilings.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import { forbiddenClass, upperBound, writtenBound } from "../sizing/bounds.ts";
import { minAvailableBytes } from "../sizing/headroom.ts";
import { roundDownToMiB, roundUpToMiB, wishedSize } from "../sizing/resizing.ts";
import { relievedSize } from "./extend.ts";
import { Question } from "./question.ts";

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
export function isGrantInDoubt(facts: Facts): boolean {
  return (
    facts.filesystem.operationInProgress !== undefined || (doubtRecords(facts) ?? doubtReading(facts)) !== undefined
  );
}

/** The grant for one volume; undefined: the agent may not grow it by itself. Ask isGrantInDoubt before taking one back. */
export function emergencyGrant(
  facts: Facts,
  policy: CompiledPolicy | undefined,
  ceilings: Ceilings,
): Emergency | undefined {
  const question = new Question(facts, policy, ceilings);
  if (policy === undefined || !mayExtend(question, policy)) return undefined;
  const { reading, growthBytesPerSecond, sizeBytes: fromBytes } = facts.filesystem;
  if (reading === undefined || isGrantInDoubt(facts)) return undefined;
  const atBytes = minAvailableBytes(policy.limits, reading.capacityBytes, growthBytesPerSecond);
  const crossing = new Question(predictUse(facts, Math.max(0, reading.capacityBytes - atBytes)), policy, ceilings);
  const wantedBytes = roundUpToMiB(stepSize(crossing, policy, atBytes));
  const sizeBytes = Math.min(
    wantedBytes,
    roundDownToMiB(upperBound(question).bytes),
    fromBytes + policy.extend.maxStepBytes,
  );
  return sizeBytes > fromBytes ? { sizeBytes, minAvailableBytes: atBytes, expiresInMs: EMERGENCY_LIFE_MS } : undefined;
}

/**
 * The largest grant that policy, ceilings and class allow, whatever is measured; 0: none. It bounds a grant that stands while the
 * facts are in doubt: who lowers a max, suspends a policy or deletes it takes the grant back.
 */
export function grantLimit(facts: Facts, policy: CompiledPolicy | undefined, ceilings: Ceilings): number {
  const question = new Question(facts, policy, ceilings);
  return policy !== undefined && mayExtend(question, policy) ? roundDownToMiB(writtenBound(question).bytes) : 0;
}

function mayExtend(question: Question, policy: CompiledPolicy): boolean {
  const { facts, ceilings } = question;
  if (policy.suspended || !policy.guardsMinAvailable || facts.claim.deleting) return false;
  // What a claim is given comes from its own driver: no node can do that by itself.
  if (facts.claim.backend === "claim" || forbiddenClass(question) !== undefined) return false;
  return policy.mode.extend === "Enforce" && freedom(ceilings.modes.extend?.value ?? "Enforce") === freedom("Enforce");
}

// One step of the policy: as its Extend rules would size it at the crossing, whichever of them fires.
function stepSize(crossing: Question, policy: CompiledPolicy, atBytes: number): number {
  const usedBytes = crossing.facts.filesystem.reading?.usedBytes ?? 0;
  const wishes = policy.rules
    .filter((rule) => rule.action === "Extend")
    .map((rule) => wishedSize(crossing, rule, usedBytes))
    .filter((wished) => typeof wished === "number");
  return Math.max(relievedSize(crossing, policy, usedBytes, atBytes), ...wishes);
}
