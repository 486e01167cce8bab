// Below which size a shrink is not worth its cost: what earlier shrinks could not reach, and where a rule would extend again. Pure.
import { formatBytes, MIB } from "../../contracts/quantities/quantity.ts";
import type { Facts, RefusedShrink } from "../facts/facts.ts";
import { predictSize, predictUse } from "../facts/prediction.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import { minAvailableBytes, roundDownToMiB, roundUpToMiB } from "../sizing/sizes.ts";
import type { Question } from "./question.ts";
import { scopeOf } from "./rule-round.ts";

/** Use that has changed by this share of the size, or by … */
const CHANGED_RATIO = 0.01;
/** … at least this, may have moved the floor: less frees no chunk that is worth a step of a shrink. */
const CHANGED_MIN_BYTES = 64 * MIB;
/** Changes without a report (a writer's peak that raised the reserve, data that was rewritten elsewhere) are found out after a day. */
const FLOOR_STANDS_MS = 86_400_000;
/** The operator's obstacle may pass by itself, such as a member that is still leaving. */
const REFUSAL_STANDS_MS = 3_600_000;

/** Bytes that the filesystem cannot safely be smaller than, as its last shrink has found; undefined: that is no longer known. */
export function standingFloorBytes({ monotonicMs, filesystem }: Facts): number | undefined {
  const { lastOperation: last, reading, sizeBytes } = filesystem;
  if (last?.kind !== "Shrink") return undefined;
  // A replacement that was taken back has succeeded in no more than that.
  const isOfFloor = last.outcome === "FloorReached" || (last.outcome === "Succeeded" && last.floorBytes !== undefined);
  if (!isOfFloor) return undefined;
  // What stood in the way passes without a change of use.
  if (last.reason === "DataImmovable" && filesystem.immovable === undefined) return undefined;
  if (last.usedBytes === undefined || last.reachedBytes !== sizeBytes || reading === undefined) return undefined;
  const hasChanged = Math.abs(reading.usedBytes - last.usedBytes) >= changeBytes(sizeBytes);
  if (hasChanged || !isRecent(monotonicMs - last.endedAtMs, FLOOR_STANDS_MS)) return undefined;
  const { floorBytes = sizeBytes, askedBytes = sizeBytes } = last;
  // One that was asked for about its floor has not reached that either: the rest is not worth asking for.
  return floorBytes - askedBytes >= changeBytes(sizeBytes) ? floorBytes : sizeBytes;
}

/** Why a shrink to about this size is not asked for again; undefined: it was not refused, or not for this size. */
export function standingRefusal({ nowMs, filesystem }: Facts, sizeBytes: number): RefusedShrink | undefined {
  const refused = filesystem.refusedShrink;
  if (refused === undefined || refused.fromBytes !== filesystem.sizeBytes) return undefined;
  const isAsRefused = sizeBytes > refused.sizeBytes - changeBytes(filesystem.sizeBytes);
  return isAsRefused && isRecent(nowMs - refused.decidedAtMs, REFUSAL_STANDS_MS) ? refused : undefined;
}

/** By whatever clock it was dated: one that is ahead holds nothing for longer. */
function isRecent(agoMs: number, standsMs: number): boolean {
  return Math.abs(agoMs) < standsMs;
}

/** What has to change first, for people. */
export function describeChange(sizeBytes: number): string {
  return `its use changes by ${formatBytes(changeBytes(sizeBytes))}, its size changes, or after 1d`;
}

function changeBytes(sizeBytes: number): number {
  return Math.max(CHANGED_MIN_BYTES, sizeBytes * CHANGED_RATIO);
}

// A shrink after which a rule would extend again saves nothing. The Extend rules are asked about the predicted facts, with a tenth more in
// use, and with as much as the peak that the shrink is counted from: it comes again tomorrow. The size is raised until all of them are false.

const MARGIN_FACTOR = 1.1;
/** Halvings of the span between the wanted and the largest size: the result is at most 1/256 of it too large. */
const MAX_HALVINGS = 8;

interface SteadySize {
  /** The smallest steady size from wantedBytes up to largestBytes; undefined: there is none. */
  readonly sizeBytes: number | undefined;
  /** What would extend it again at the last size that was not steady: a rule's name, or "minAvailable"; undefined: nothing. */
  readonly obstacle: string | undefined;
}

export function leastSteadySize(
  question: Question,
  policy: CompiledPolicy,
  wantedBytes: number,
  largestBytes: number,
  peakBytes: number,
): SteadySize {
  const whatWouldExtend = (bytes: number): string | undefined => obstacleAt(question, policy, bytes, peakBytes);
  let obstacle = whatWouldExtend(wantedBytes);
  if (obstacle === undefined) return { sizeBytes: wantedBytes, obstacle };
  let steadyBytes = roundDownToMiB(largestBytes);
  const atLargest = whatWouldExtend(steadyBytes);
  if (atLargest !== undefined) return { sizeBytes: undefined, obstacle: atLargest };
  let flappingBytes = wantedBytes;
  for (let i = 0; i < MAX_HALVINGS; i += 1) {
    const middleBytes = roundUpToMiB((flappingBytes + steadyBytes) / 2);
    if (middleBytes >= steadyBytes) break;
    const atMiddle = whatWouldExtend(middleBytes);
    if (atMiddle === undefined) steadyBytes = middleBytes;
    else [flappingBytes, obstacle] = [middleBytes, atMiddle];
  }
  return { sizeBytes: steadyBytes, obstacle };
}

function obstacleAt(
  { facts }: Question,
  policy: CompiledPolicy,
  sizeBytes: number,
  peakBytes: number,
): string | undefined {
  const obstacle = whatWouldExtend(predictSize(facts, sizeBytes, MARGIN_FACTOR), policy);
  const usedBytes = facts.filesystem.reading?.usedBytes ?? 0;
  if (obstacle !== undefined || peakBytes <= usedBytes * MARGIN_FACTOR) return obstacle;
  const smaller = predictSize(facts, sizeBytes, 1);
  const capacityBytes = smaller.filesystem.reading?.capacityBytes ?? 0;
  return whatWouldExtend(predictUse(smaller, Math.min(peakBytes, capacityBytes)), policy);
}

// A rule that fails on the predicted facts counts as one that would extend.
function whatWouldExtend(predicted: Facts, policy: CompiledPolicy): string | undefined {
  const { reading } = predicted.filesystem;
  if (reading === undefined) return "minAvailable";
  if (reading.availableBytes < minAvailableBytes(policy.limits, reading.capacityBytes, reading.growthBytesPerSecond))
    return "minAvailable";
  const scope = scopeOf(predicted);
  return policy.rules.find((rule) => {
    if (rule.action !== "Extend") return false;
    const result = rule.when.evaluate(scope);
    return !result.ok || result.value;
  })?.name;
}
