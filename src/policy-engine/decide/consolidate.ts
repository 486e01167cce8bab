// Whether a filesystem's members are merged into fewer, for a pod that lacks the attach slots that they take. Data moves as in a shrink, so
// the policy's rules for shrinks hold: mode, cooldown, counts and windows. The size is the same before and after. In between it is larger
// by what leaves, which every bound has to allow.

import { chunkRoomBytes } from "../../contracts/formulas/reserve.ts";
import { withDetail } from "../../contracts/printable.ts";
import { formatBytes } from "../../contracts/quantities/quantity.ts";
import type { ConsolidationFacts, Facts } from "../facts/facts.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import { describeLowerBound, lowerBound, reserveBytes, upperBound } from "../sizing/sizes.ts";
import { admit } from "./cooldowns.ts";
import { stabilizationMsOf } from "./flaps.ts";
import { effectiveMode } from "./modes.ts";
import type { Plan } from "./plan.ts";
import type { Question, WantedChange } from "./question.ts";
import { holdAfterLastShrink, profileObstacle } from "./shrink.ts";

/** One that was begun is finished before anything smaller is thought of. */
export function consolidationRuns(question: Question): Plan | undefined {
  const wanted = question.facts.filesystem.consolidation;
  return wanted?.underWay === true ? question.hold("OperationInProgress", wanted.because) : undefined;
}

export function fewerMembersAreWanted(question: Question): Plan | undefined {
  const { policy, facts } = question;
  const wanted = facts.filesystem.consolidation;
  if (wanted === undefined || policy === undefined) return undefined;
  if (facts.metricsStale)
    return question.hold("StaleMetrics", `${wanted.because}; Prometheus gives no fresh answer: no data is moved`);
  const change = changeOf(question, wanted);
  return (
    holdForObstacle(question, wanted) ??
    holdForMinimum(question, wanted) ??
    holdForRoom(question, wanted) ??
    holdForBound(question, wanted) ??
    holdAfterLastShrink(question, policy, change) ??
    admit(question, change)
  );
}

function changeOf(question: Question, { members, growthBytes, sizeBytes, because }: ConsolidationFacts): WantedChange {
  return {
    direction: "shrink",
    mode: effectiveMode(question, "shrink", undefined),
    reason: "AttachSlotsNeeded",
    rule: undefined,
    uncappedBytes: sizeBytes,
    sizeBytes,
    members,
    growthBytes,
    because,
    cappedBy: undefined,
    urgent: false,
  };
}

function holdForObstacle(question: Question, { because, obstacle }: ConsolidationFacts): Plan | undefined {
  const profile = profileObstacle(question.facts.filesystem.reading?.dataProfiles);
  if (profile !== undefined) return question.hold(profile.reason, withDetail(profile.text, because));
  // The removal would be refused, after what has to come first was made for it.
  const { immovable } = question.facts.filesystem;
  if (immovable !== undefined) return question.hold("ShrinkFloorReached", withDetail(immovable, because));
  return obstacle === undefined ? undefined : question.hold("NoSlotFree", withDetail(obstacle, because));
}

// One that was not finished gives back what it took, but nothing that people have asked for since.
function holdForMinimum(question: Question, { sizeBytes, because }: ConsolidationFacts): Plan | undefined {
  const isSmaller = sizeBytes < question.facts.filesystem.sizeBytes && sizeBytes < lowerBound(question);
  return isSmaller ? question.hold("AtMinimum", `${because}, less than ${describeLowerBound(question)}`) : undefined;
}

// The node would find its floor after everything has moved but the last member.
function holdForRoom(question: Question, { sizeBytes, growthBytes, because }: ConsolidationFacts): Plan | undefined {
  const { policy, facts } = question;
  const { reading } = facts.filesystem;
  if (reading === undefined || policy === undefined)
    return question.hold("NotMounted", `${because}; nothing measures it`);
  const reserve = reserveBytes(policy.limits, reading.capacityBytes, facts.filesystem);
  // By the size that it has while they leave, as the node asks (src/agent/storage/span/decide-removal.ts).
  const roomBytes = Math.ceil(reserve + chunkRoomBytes(sizeBytes, facts.filesystem.sizeBytes + growthBytes));
  const usedBytes = Math.max(reading.usedBytes, peakToKeep(policy, facts, sizeBytes));
  const leftBytes = sizeBytes - usedBytes;
  if (leftBytes >= roomBytes) return undefined;
  return question.hold(
    "ShrinkFloorReached",
    withDetail(
      `${formatBytes(usedBytes)} of ${formatBytes(sizeBytes)} are used, and moving members safely needs ${formatBytes(roomBytes)} left`,
      because,
    ),
  );
}

/** One that was not finished makes the filesystem smaller, as any shrink does: the peak of the stabilization counts, where it is known. */
function peakToKeep(policy: CompiledPolicy, facts: Facts, sizeBytes: number): number {
  const { filesystem, monotonicMs } = facts;
  const stabilizationMs = stabilizationMsOf(facts, policy);
  if (sizeBytes >= filesystem.sizeBytes || stabilizationMs === 0) return 0;
  const peak = filesystem.history.maxUsedBytes(stabilizationMs, monotonicMs);
  return typeof peak === "number" ? peak : 0;
}

function holdForBound(question: Question, { growthBytes, because }: ConsolidationFacts): Plan | undefined {
  const meanwhileBytes = question.facts.filesystem.sizeBytes + growthBytes;
  const upper = upperBound(question);
  if (growthBytes === 0 || meanwhileBytes <= upper.bytes) return undefined;
  return question.hold(
    upper.reason,
    `${because}; during the change it would have ${formatBytes(meanwhileBytes)}, more than ${upper.text}`,
  );
}
