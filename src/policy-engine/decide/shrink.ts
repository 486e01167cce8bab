// Whether a filesystem should be smaller, and how small. Where anything is unknown it stays: every figure is known, every Extend
// rule is known not to hold, and what is left fits the peak of the rule's window and of the policy's stabilization, the reserve and the
// minimum. When it may happen is cooldowns.ts' question.

import { describeProfiles, isPlain, NO_DATA_PROFILES } from "../../contracts/formulas/data-profiles.ts";
import { MISSED_WINDOWS_LIMIT } from "../../contracts/kinds/filesystem.ts";
import { withDetail } from "../../contracts/printable.ts";
import { formatDuration } from "../../contracts/quantities/duration.ts";
import { formatBytes, MIB } from "../../contracts/quantities/quantity.ts";
import { formatPercent } from "../../contracts/quantities/ratio.ts";
import type { HoldReason } from "../../contracts/reasons.ts";
import type { Facts, ReceivedReading } from "../facts/facts.ts";
import { isStanding } from "../facts/missed-windows.ts";
import type { CompiledPolicy, CompiledRule } from "../policies/compiled-policy.ts";
import {
  candidateSize,
  describeLowerBound,
  holdForFailure,
  lowerBound,
  reserveBytes,
  roundUpToMiB,
  sizeForCapacity,
} from "../sizing/sizes.ts";
import { admit, orOutsideWindow, shrinkBackOffMs } from "./cooldowns.ts";
import { raisedUntilMs, stabilizationMsOf } from "./flaps.ts";
import { effectiveMode } from "./modes.ts";
import type { ChangePlan, HoldPlan, Plan } from "./plan.ts";
import type { Question, WantedChange } from "./question.ts";
import type { RuleFailure } from "./rule-round.ts";
import { describeChange, leastSteadySize, standingFloorBytes, standingRefusal } from "./shrink-floors.ts";

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

/** A shrink of what a person has converted is unproven. */
export function profileObstacle(dataProfiles: number = NO_DATA_PROFILES): Obstacle | undefined {
  if (isPlain(dataProfiles)) return undefined;
  const text = `its data has the profile ${describeProfiles(dataProfiles)}, and only single shrinks: btrfs balance start -dconvert=single`;
  return { reason: "ShrinkUnsupported", text };
}

const DAY_MS = 86_400_000;
/** After a shrink that was not finished, however short the cooldown: trying again moves data again. */
const MIN_RETRY_MS = 2000;

/** One rule's shrink. */
interface Candidate {
  readonly rule: CompiledRule;
  readonly windowMs: number;
  /** The most used in that time. */
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
  const plan = shrinkByRules(question, policy, reading, rules, stabilizationMsOf(facts, policy));
  const untilMs = raisedUntilMs(facts, policy);
  if (untilMs === undefined || plan.kind !== "hold" || !HOLDS_OF_PEAK.has(plan.reason)) return plan;
  const own = shrinkByRules(question, policy, reading, rules, policy.shrink.stabilizationMs);
  return own.kind === "shrink" ? holdWhileFlapping(question, own, untilMs) : plan;
}

/** What a longer look back may end in. */
const HOLDS_OF_PEAK: ReadonlySet<HoldReason> = new Set<HoldReason>(["StepTooSmall", "NotEnoughHistory"]);

function holdWhileFlapping(
  question: Question,
  { rule, uncappedBytes, message }: ChangePlan,
  untilMs: number,
): HoldPlan {
  return question.hold(
    "WouldFlap",
    withDetail("twice within 7d it grew again in the day after a shrink, so it has what its peak of 1d needs", message),
    { rule, uncappedBytes, nextEligibleMs: question.wallMs(untilMs) },
  );
}

function shrinkByRules(
  question: Question,
  policy: CompiledPolicy,
  reading: ReceivedReading,
  rules: readonly CompiledRule[],
  stabilizationMs: number,
): Plan {
  const candidates: Candidate[] = [];
  for (const rule of rules) {
    const candidate = candidateOf(question, policy, reading, rule, stabilizationMs);
    if ("kind" in candidate) return holdForFailure(question, candidate);
    candidates.push(candidate);
  }
  const largest = candidates.reduce((a, b) => (b.sizeBytes > a.sizeBytes ? b : a));
  return boundedShrink(question, policy, reading, largest);
}

function candidateOf(
  question: Question,
  policy: CompiledPolicy,
  reading: ReceivedReading,
  rule: CompiledRule,
  stabilizationMs: number,
): Candidate | RuleFailure {
  const windowMs = Math.max(rule.windowMs, stabilizationMs);
  const peak = peakBytes(question, reading, rule, windowMs);
  if (typeof peak !== "number") return peak;
  const wantedSize = candidateSize(question, rule, peak);
  if (typeof wantedSize !== "number") return wantedSize;
  const reserve = reserveBytes(policy.limits, reading.capacityBytes, question.facts.filesystem);
  const uncappedBytes = roundUpToMiB(wantedSize);
  const safeBytes = roundUpToMiB(sizeForCapacity(question, withRoomToMove(peak + reserve)));
  const sizeBytes = Math.max(uncappedBytes, safeBytes);
  return { rule, windowMs, peakBytes: peak, uncappedBytes, sizeBytes, reserveBytes: reserve };
}

/** btrfs moves data by the chunk, a tenth of the filesystem and at most this (kernel, fs/btrfs/volumes.c). */
const CHUNK_MAX_BYTES = 1024 * MIB;
const CHUNKS_PER_FILESYSTEM = 10;

// The chunk that is being moved takes no writes. A size that left just the reserve would be cancelled by the shrink's own move.
function withRoomToMove(bytes: number): number {
  return bytes + Math.min(CHUNK_MAX_BYTES, bytes / (CHUNKS_PER_FILESYSTEM - 1));
}

// A database that is compacting looks empty for a moment: the window is never this instant alone, unless the policy writes that.
function peakBytes(
  { facts }: Question,
  reading: ReceivedReading,
  rule: CompiledRule,
  windowMs: number,
): number | RuleFailure {
  if (windowMs === 0) return reading.usedBytes;
  const peak = facts.filesystem.history.maxUsedBytes(windowMs, facts.monotonicMs);
  const by = rule.windowMs < windowMs ? "; behavior.shrink.stabilization asks for it" : "";
  if (typeof peak !== "number") return { rule, kind: "NotEnoughHistory", message: `${peak.missing}${by}` };
  return Math.max(peak, reading.usedBytes);
}

function boundedShrink(
  question: Question,
  policy: CompiledPolicy,
  reading: ReceivedReading,
  candidate: Candidate,
): Plan {
  const { facts } = question;
  const fromBytes = facts.filesystem.sizeBytes;
  const details = { rule: candidate.rule.name, uncappedBytes: candidate.uncappedBytes };
  const because = describePeak(candidate, reading);
  if (facts.claim.backend === "claim")
    return question.hold("ShrinkUnsupported", `${because}, ${savingText(policy, candidate, fromBytes)}`, details);
  const obstacle = obstacleTo(question, policy);
  if (obstacle !== undefined) return question.hold(obstacle.reason, `${because}, but ${obstacle.text}`, details);
  const minBytes = roundUpToMiB(lowerBound(question));
  if (fromBytes <= minBytes)
    return question.hold("AtMinimum", `${because}, and the size is at ${describeLowerBound(question)}`, details);
  const floor = highestFloor(question, policy, candidate);
  const wantedBytes = roundUpToMiB(floor.bytes);
  const largestBytes = fromBytes - policy.shrink.minStepBytes;
  const known = standingFloorBytes(facts);
  if (known !== undefined && wantedBytes > largestBytes && floor.bytes === known)
    return question.hold("ShrinkFloorReached", `${because}; ${floorText(known, fromBytes)}`, details);
  if (wantedBytes > largestBytes)
    return question.hold("StepTooSmall", `${because}; ${stepText(fromBytes, wantedBytes, policy)}`, details);
  const steady = leastSteadySize(question, policy, wantedBytes, largestBytes, candidate.peakBytes);
  const { sizeBytes, obstacle: flap } = steady;
  if (sizeBytes === undefined)
    return question.hold("WouldFlap", `${because}, but after a shrink ${flap} would extend it again`, details);
  const cap = flap === undefined ? floor.text : `${flap}, which would extend it again`;
  const refused = standingRefusal(facts, sizeBytes);
  if (refused !== undefined) return question.hold("ShrinkFloorReached", `${because}, but ${refused.message}`, details);
  const change = { ...changeOf(question, candidate, because, sizeBytes, cap), peakBytes: dayPeak(facts, candidate) };
  const asked =
    holdForMissedWindows(question, policy, change) ??
    holdAfterLastShrink(question, policy, change) ??
    admit(question, change);
  const plan = orOutsideWindow(question, change, policy.shrink, asked);
  return plan.kind === "shrink" && facts.claim.fsType === "ext4" ? planAtUnmount(question, policy, plan) : plan;
}

/** What an extend within a day after it is compared with. */
function dayPeak({ filesystem, monotonicMs }: Facts, { peakBytes: known }: Candidate): number {
  return Math.max(known, filesystem.history.mostSeenBytes(DAY_MS, monotonicMs));
}

// No driver makes a claim smaller. What span would save is the same sum as there: what is used, its reserve, the policy's minimum.
function savingText({ limits }: CompiledPolicy, { sizeBytes }: Candidate, fromBytes: number): string {
  const spanBytes = roundUpToMiB(Math.max(sizeBytes, limits.minBytes ?? 0));
  const saving =
    spanBytes < fromBytes
      ? `the backend span would need ${formatBytes(spanBytes)}, and save ${formatBytes(fromBytes - spanBytes)} (${fromBytes - spanBytes} bytes)`
      : "the backend span would save nothing here";
  return `but no claim can shrink; ${saving}`;
}

function highestFloor(question: Question, policy: CompiledPolicy, candidate: Candidate): Floor {
  const { maxStepBytes } = policy.shrink;
  const known = standingFloorBytes(question.facts);
  const floors: [Floor, ...Floor[]] = [
    { bytes: candidate.sizeBytes, text: `the reserve of ${formatBytes(candidate.reserveBytes)} and a chunk to move` },
    { bytes: lowerBound(question), text: describeLowerBound(question) },
    { bytes: question.facts.filesystem.sizeBytes - maxStepBytes, text: `maxStep (${formatBytes(maxStepBytes)})` },
    ...(known === undefined ? [] : [{ bytes: known, text: `the floor of the last shrink (${formatBytes(known)})` }]),
  ];
  return floors.reduce((highest, floor) => (floor.bytes > highest.bytes ? floor : highest));
}

function changeOf(
  question: Question,
  candidate: Candidate,
  because: string,
  sizeBytes: number,
  cap: string,
): WantedChange {
  return {
    direction: "shrink",
    mode: effectiveMode(question, "shrink", candidate.rule),
    reason: "RuleFired",
    rule: candidate.rule,
    uncappedBytes: candidate.uncappedBytes,
    sizeBytes,
    because,
    cappedBy: sizeBytes > candidate.uncappedBytes ? cap : undefined,
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
  if (isBusy) return question.hold("FilesystemBusy", last.message ?? "another program is working on it", details);
  if (last.outcome === "Cancelled")
    return question.hold(
      "ShrinkCancelled",
      `the last shrink was cancelled (${last.reason ?? "a writer needed the room"})`,
      details,
    );
  if (last.outcome !== "FloorReached" || change.sizeBytes >= (last.floorBytes ?? Number.POSITIVE_INFINITY))
    return undefined;
  const floor = last.floorBytes === undefined ? "its floor" : formatBytes(last.floorBytes);
  return question.hold("ShrinkFloorReached", `cannot shrink below ${floor} now`, details);
}

function holdForMissedWindows(question: Question, policy: CompiledPolicy, change: WantedChange): HoldPlan | undefined {
  const missed = question.facts.missedWindows;
  if (missed === undefined || policy.shrink.windows.length === 0) return undefined;
  if (missed.decidedAt.length < MISSED_WINDOWS_LIMIT || !isStanding(missed, question.facts, policy)) return undefined;
  const message = `make behavior.shrink.windows longer: two in a row ended before a first step; next try when the policy, the size, or the use by 5% changes`;
  return question.hold("WindowTooShort", message, { rule: change.rule?.name, uncappedBytes: change.uncappedBytes });
}

function describePeak({ windowMs, peakBytes: peak }: Candidate, reading: ReceivedReading): string {
  const when = windowMs === 0 ? "" : ` at the peak of the last ${formatDuration(windowMs)}`;
  return `${formatPercent(peak / reading.capacityBytes)} of ${formatBytes(reading.capacityBytes)} is used${when}`;
}

function floorText(floorBytes: number, sizeBytes: number): string {
  return `cannot shrink below ${formatBytes(floorBytes)} now; next try when ${describeChange(sizeBytes)}`;
}

function stepText(fromBytes: number, wantedBytes: number, policy: CompiledPolicy): string {
  const minStep = formatBytes(policy.shrink.minStepBytes);
  if (wantedBytes >= fromBytes)
    return `with the reserve it needs ${formatBytes(wantedBytes)}: of ${formatBytes(fromBytes)} nothing can be given back`;
  return `${formatBytes(fromBytes - wantedBytes)} could be given back, less than minStep (${minStep})`;
}

// Shrinks that wait for the next unmount: what cannot be made smaller while it is mounted, and can behind a snapshot of its thin pool. They
// are decided for a window only, and for a few minutes: what is decided by then replaces them, or they are over.

/** A suspension, a deletion or a change of the policy ends a waiting shrink within this. */
const LIFE_MS = 300_000;
const RENEWAL_MS = 120_000;

/** Why an ext4 is not made smaller, completing "…, but"; undefined: it is, at the next unmount. */
function unmountedObstacle({ filesystem }: Facts, { shrink }: CompiledPolicy): string | undefined {
  if (!filesystem.shrinksUnmounted)
    return "ext4 can lose data in a crash while it shrinks, without a thin pool's snapshot; use btrfs to shrink";
  if (shrink.windows.length > 0) return undefined;
  return "ext4 shrinks only unmounted, and only in a window; set behavior.shrink.windows";
}

/** The shrink, to be begun within the window that is open; or what waits already, where that serves. */
function planAtUnmount(question: Question, policy: CompiledPolicy, plan: ChangePlan): Plan {
  const { nowMs, filesystem } = question.facts;
  const closesMs = Math.max(...policy.shrink.windows.map((window) => window.closesMs(nowMs) ?? nowMs));
  const notAfterMs = Math.min(nowMs + LIFE_MS, closesMs, plan.approval?.notAfterMs ?? Number.POSITIVE_INFINITY);
  const planned = filesystem.plannedShrink;
  const serves =
    planned !== undefined &&
    planned.fromBytes === plan.fromBytes &&
    planned.sizeBytes >= plan.sizeBytes &&
    planned.sizeBytes - plan.sizeBytes < policy.shrink.minStepBytes &&
    (planned.notAfterMs - nowMs > RENEWAL_MS || planned.notAfterMs >= notAfterMs) &&
    planned.notAfterMs > nowMs;
  if (!serves) return { ...plan, message: `${plan.message}, at the next unmount`, notAfterMs };
  return question.hold(
    "ShrinkAtUnmount",
    `${plan.rule ?? "a rule"}: it shrinks from ${formatBytes(planned.fromBytes)} to ${formatBytes(planned.sizeBytes)} when it is unmounted within the ` +
      `window, of which ${formatDuration(Math.max(0, Math.floor((closesMs - nowMs) / 60_000) * 60_000))} are left`,
    { rule: plan.rule, uncappedBytes: plan.uncappedBytes },
  );
}
