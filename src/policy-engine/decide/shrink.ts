// Whether a filesystem should be smaller, and how small. In doubt it stays: every figure is known, every Extend rule is known
// not to hold, and what is left fits the window's peak, the reserve and the minimum. When it may happen is cooldowns.ts' question.
import { describeProfiles, isPlain, NO_DATA_PROFILES } from "../../api/data-profiles.ts";
import type { HoldReason } from "../../api/reasons.ts";
import { formatDuration } from "../../units/duration.ts";
import { formatBytes, MIB } from "../../units/quantity.ts";
import { formatPercent } from "../../units/ratio.ts";
import type { Reading } from "../facts/facts.ts";
import type { CompiledPolicy, CompiledRule } from "../policies/compiled-policy.ts";
import type { RuleFailure } from "../rules/rule-round.ts";
import { describeLowerBound, lowerBound } from "../sizing/bounds.ts";
import { reserveBytes } from "../sizing/headroom.ts";
import { holdForFailure, roundUpToMiB, sizeForCapacity, wishedSize } from "../sizing/resizing.ts";
import { admit, shrinkBackOffMs } from "./cooldowns.ts";
import { leastSteadySize } from "./flapping.ts";
import type { HoldPlan, Plan } from "./plan.ts";
import type { Question, WantedChange } from "./question.ts";
import { planAtUnmount, unmountedObstacle } from "./shrink-awaiting-unmount.ts";
import { describeChange, standingFloorBytes, standingRefusal } from "./standing-floor.ts";

interface Obstacle {
  readonly reason: HoldReason;
  /** Completes "…, but". */
  readonly text: string;
}

/** Why a filesystem is not made smaller; undefined: it is. */
function obstacleTo({ facts }: Question, policy: CompiledPolicy): Obstacle | undefined {
  switch (facts.claim.fsType) {
    case "btrfs":
      return profileObstacle(facts.filesystem.reading?.dataProfiles);
    case "ext4": {
      const text = unmountedObstacle(facts, policy);
      return text === undefined ? undefined : { reason: "ShrinkNotCrashSafe", text };
    }
    case "xfs":
      return { reason: "ShrinkUnsupported", text: "xfs cannot shrink; use btrfs where volumes should" };
  }
}

/** What a person has converted has been proven to shrink by nobody. */
export function profileObstacle(dataProfiles: number = NO_DATA_PROFILES): Obstacle | undefined {
  if (isPlain(dataProfiles)) return undefined;
  const text = `its data has the profile ${describeProfiles(dataProfiles)}, and only single shrinks: btrfs balance start -dconvert=single`;
  return { reason: "ShrinkUnsupported", text };
}

/** After a shrink that was not finished, however short the cooldown: trying again moves data again. */
const MIN_RETRY_MS = 2000;

/** One rule's shrink. */
interface Wish {
  readonly rule: CompiledRule;
  /** The most used in the rule's window. */
  readonly peakBytes: number;
  readonly uncappedBytes: number;
  /** The smallest size that is safe for what was used, and at least uncappedBytes. */
  readonly sizeBytes: number;
  /** What is left available of it. */
  readonly reserveBytes: number;
}

/** A size that the shrink stays at or above. */
interface Floor {
  readonly bytes: number;
  /** Completes "capped by …". */
  readonly text: string;
}

/** The plan of the Shrink rules that fire; undefined: none does. Of several the largest size wins. */
export function shrinkAsMeasured(question: Question): Plan | undefined {
  const rules = question.firingRules("Shrink");
  const { policy, facts } = question;
  const { reading } = facts.filesystem;
  if (rules.length === 0 || policy === undefined || reading === undefined) return undefined;
  const wishes: Wish[] = [];
  for (const rule of rules) {
    const wish = wishOf(question, policy, reading, rule);
    if ("kind" in wish) return holdForFailure(question, wish);
    wishes.push(wish);
  }
  return boundedShrink(
    question,
    policy,
    reading,
    wishes.reduce((a, b) => (b.sizeBytes > a.sizeBytes ? b : a)),
  );
}

function wishOf(question: Question, policy: CompiledPolicy, reading: Reading, rule: CompiledRule): Wish | RuleFailure {
  const peak = peakBytes(question, reading, rule);
  if (typeof peak !== "number") return peak;
  const wished = wishedSize(question, rule, peak);
  if (typeof wished !== "number") return wished;
  const reserve = reserveBytes(policy.limits, reading.capacityBytes, question.facts.filesystem);
  const uncappedBytes = roundUpToMiB(wished);
  const safeBytes = roundUpToMiB(sizeForCapacity(question, withRoomToMove(peak + reserve)));
  return { rule, peakBytes: peak, uncappedBytes, sizeBytes: Math.max(uncappedBytes, safeBytes), reserveBytes: reserve };
}

/** btrfs moves data by the chunk, a tenth of the filesystem and at most this (kernel, fs/btrfs/volumes.c). */
const CHUNK_MAX_BYTES = 1024 * MIB;
const CHUNKS_PER_FILESYSTEM = 10;

// The chunk that is being moved takes no writes. A size that left just the reserve would be cancelled by the shrink's own move.
function withRoomToMove(bytes: number): number {
  return bytes + Math.min(CHUNK_MAX_BYTES, bytes / (CHUNKS_PER_FILESYSTEM - 1));
}

// Never this instant alone: a database that is compacting looks empty for a moment.
function peakBytes({ facts }: Question, reading: Reading, rule: CompiledRule): number | RuleFailure {
  if (rule.windowMs === 0) return reading.usedBytes;
  const peak = facts.filesystem.history.maxUsedBytes(rule.windowMs, facts.monotonicMs);
  if (typeof peak !== "number") return { rule, kind: "NotEnoughHistory", message: peak.missing };
  return Math.max(peak, reading.usedBytes);
}

function boundedShrink(question: Question, policy: CompiledPolicy, reading: Reading, wish: Wish): Plan {
  const { facts } = question;
  const fromBytes = facts.filesystem.sizeBytes;
  const details = { rule: wish.rule.name, uncappedBytes: wish.uncappedBytes };
  const because = describePeak(wish, reading);
  if (facts.claim.backend === "claim")
    return question.hold("ShrinkUnsupported", `${because}, ${savingText(policy, wish, fromBytes)}`, details);
  const obstacle = obstacleTo(question, policy);
  if (obstacle !== undefined) return question.hold(obstacle.reason, `${because}, but ${obstacle.text}`, details);
  const minBytes = roundUpToMiB(lowerBound(question));
  if (fromBytes <= minBytes)
    return question.hold("AtMinimum", `${because}, and the size is at ${describeLowerBound(question)}`, details);
  const floor = highestFloor(question, policy, wish);
  const wantedBytes = roundUpToMiB(floor.bytes);
  const largestBytes = fromBytes - policy.shrink.minStepBytes;
  const known = standingFloorBytes(facts);
  if (known !== undefined && wantedBytes > largestBytes && floor.bytes === known)
    return question.hold("ShrinkFloorReached", `${because}; ${floorText(known, fromBytes)}`, details);
  if (wantedBytes > largestBytes)
    return question.hold("StepTooSmall", `${because}; ${stepText(fromBytes, wantedBytes, policy)}`, details);
  const { sizeBytes, obstacle: flap } = leastSteadySize(question, policy, wantedBytes, largestBytes);
  if (sizeBytes === undefined)
    return question.hold("WouldFlap", `${because}, but after a shrink ${flap} would extend it again`, details);
  const cap = flap === undefined ? floor.text : `${flap}, which would extend it again`;
  const refused = standingRefusal(facts, sizeBytes);
  if (refused !== undefined) return question.hold("ShrinkFloorReached", `${because}, but ${refused.message}`, details);
  const change = changeOf(wish, because, sizeBytes, cap);
  const plan = holdAfterLastShrink(question, policy, change) ?? admit(question, change);
  return plan.kind === "shrink" && facts.claim.fsType === "ext4" ? planAtUnmount(question, policy, plan) : plan;
}

// No driver makes a claim smaller. What span would save is the same sum as there: what is used, its reserve, the policy's minimum.
function savingText({ limits }: CompiledPolicy, { sizeBytes }: Wish, fromBytes: number): string {
  const spanBytes = roundUpToMiB(Math.max(sizeBytes, limits.minBytes ?? 0));
  const saving =
    spanBytes < fromBytes
      ? `the backend span would need ${formatBytes(spanBytes)}, and save ${formatBytes(fromBytes - spanBytes)} (${fromBytes - spanBytes} bytes)`
      : "the backend span would save nothing here";
  return `but no claim can shrink; ${saving}`;
}

function highestFloor(question: Question, policy: CompiledPolicy, wish: Wish): Floor {
  const { maxStepBytes } = policy.shrink;
  const known = standingFloorBytes(question.facts);
  const floors: [Floor, ...Floor[]] = [
    { bytes: wish.sizeBytes, text: `the reserve of ${formatBytes(wish.reserveBytes)} and a chunk to move` },
    { bytes: lowerBound(question), text: describeLowerBound(question) },
    { bytes: question.facts.filesystem.sizeBytes - maxStepBytes, text: `maxStep (${formatBytes(maxStepBytes)})` },
    ...(known === undefined ? [] : [{ bytes: known, text: `the floor of the last shrink (${formatBytes(known)})` }]),
  ];
  return floors.reduce((highest, floor) => (floor.bytes > highest.bytes ? floor : highest));
}

function changeOf(wish: Wish, because: string, sizeBytes: number, cap: string): WantedChange {
  return {
    direction: "shrink",
    reason: "RuleFired",
    rule: wish.rule,
    uncappedBytes: wish.uncappedBytes,
    sizeBytes,
    because,
    cappedBy: sizeBytes > wish.uncappedBytes ? cap : undefined,
    urgent: false,
  };
}

/** A shrink that could not be finished is not tried again at once, unless less is asked of it this time. */
export function holdAfterLastShrink(
  question: Question,
  policy: CompiledPolicy,
  change: WantedChange,
): HoldPlan | undefined {
  const { monotonicMs, filesystem } = question.facts;
  const last = filesystem.lastOperation;
  if (last?.kind !== "Shrink") return undefined;
  const known = standingFloorBytes(question.facts);
  if (known !== undefined && change.sizeBytes < known)
    return question.hold("ShrinkFloorReached", floorText(known, filesystem.sizeBytes), { rule: change.rule?.name });
  const isBusy = last.reason === "FilesystemBusy";
  const leastMs = isBusy ? shrinkBackOffMs(filesystem) : MIN_RETRY_MS;
  const eligibleAtMs = last.endedAtMs + Math.max(policy.shrink.cooldownMs, leastMs);
  if (!(monotonicMs < eligibleAtMs)) return undefined;
  const nextEligibleMs = question.wallMs(eligibleAtMs);
  const details = { rule: change.rule?.name, uncappedBytes: change.uncappedBytes, nextEligibleMs };
  if (last.reason === "ShrinkNotCrashSafe")
    return question.hold(last.reason, `the last shrink was not begun, or taken back: ${last.message ?? ""}`, details);
  if (isBusy) return question.hold("FilesystemBusy", last.message ?? "somebody else is at work on it", details);
  if (last.outcome === "Cancelled")
    return question.hold(
      "ShrinkCancelled",
      `the last shrink was cancelled (${last.reason ?? "a writer needed the room"})`,
      details,
    );
  if (last.outcome !== "FloorReached" || change.sizeBytes >= (last.floorBytes ?? Number.POSITIVE_INFINITY))
    return undefined;
  const floor = last.floorBytes === undefined ? "its floor" : formatBytes(last.floorBytes);
  return question.hold("ShrinkFloorReached", `the filesystem cannot safely be smaller than ${floor} now`, details);
}

function describePeak({ rule, peakBytes: peak }: Wish, reading: Reading): string {
  const when = rule.windowMs === 0 ? "" : ` at the peak of the last ${formatDuration(rule.windowMs)}`;
  return `${formatPercent(peak / reading.capacityBytes)} of ${formatBytes(reading.capacityBytes)} is used${when}`;
}

function floorText(floorBytes: number, sizeBytes: number): string {
  return (
    `the filesystem cannot safely be smaller than ${formatBytes(floorBytes)} now; nothing smaller is asked for before ` +
    describeChange(sizeBytes)
  );
}

function stepText(fromBytes: number, wantedBytes: number, policy: CompiledPolicy): string {
  const minStep = formatBytes(policy.shrink.minStepBytes);
  if (wantedBytes >= fromBytes)
    return `with the reserve it needs ${formatBytes(wantedBytes)}: of ${formatBytes(fromBytes)} nothing can be given back`;
  return `${formatBytes(fromBytes - wantedBytes)} could be given back, less than minStep (${minStep})`;
}
