// The same policies without CEL, as somebody would write them for one purpose: what `decide` is compared with, in its answers and
// in its cost. It knows only what the benchmark's volumes can meet.

import { GIB, MIB } from "../../src/contracts/quantities/quantity.ts";
import type { Facts } from "../../src/policy-engine/index.ts";
import { LIMITS, NOW_MS, RULE_NAMES, type Team } from "./fleet.ts";

export interface HandWrittenPlan {
  readonly kind: "extend" | "shrink" | "hold";
  readonly reason: string;
  readonly rule: string | undefined;
  readonly sizeBytes: number | undefined;
}

const DAY_MS = 86_400_000;
const STEP = { minBytes: GIB, maxBytes: 100 * GIB } as const;
const SHRINK_COOLDOWN_MS = 6 * 3_600_000;
const RESERVE_MIN_BYTES = 256 * MIB;
const MARGIN = 1.1;
const REST: HandWrittenPlan = hold("WithinBounds");

export function decideByHand(facts: Facts, team: Team): HandWrittenPlan {
  return extendByHand(facts, team) ?? shrinkByHand(facts, team) ?? REST;
}

function extendByHand({ claim, filesystem }: Facts, team: Team): HandWrittenPlan | undefined {
  const { reading, sizeBytes } = filesystem;
  if (reading === undefined) return undefined;
  const {
    capacityBytes,
    usedBytes,
    availableBytes,
    inodesTotal = 0,
    inodesUsed = 0,
    growthBytesPerSecond = 0,
  } = reading;
  const minAvailableBytes = minAvailable(capacityBytes, growthBytesPerSecond);
  const isUrgent = availableBytes < minAvailableBytes;
  const forSpace = usedBytes / capacityBytes >= team.extendAtRatio;
  const forInodes =
    inodesTotal > 0 && inodesUsed / inodesTotal >= team.inodesRatio && claim.labels["tier"] === team.tier;
  if (!isUrgent && !forSpace && !forInodes) return undefined;
  const leastBytes = sizeBytes + STEP.minBytes;
  const relievedBytes = isUrgent ? Math.max(leastBytes, usedBytes + 2 * minAvailableBytes) : 0;
  const spaceBytes = forSpace ? Math.max(leastBytes, Math.ceil(usedBytes / team.extendTargetRatio)) : 0;
  const inodesBytes = forInodes ? Math.max(leastBytes, sizeBytes * (1 + team.inodesByRatio)) : 0;
  const wantedBytes = Math.ceil(Math.max(relievedBytes, spaceBytes, inodesBytes) / MIB) * MIB;
  const boundBytes = Math.min(LIMITS.maxBytes, 10 * claim.nominalBytes);
  if (boundBytes <= sizeBytes) return hold("AtMaximum");
  return {
    kind: "extend",
    reason: isUrgent ? "BelowMinAvailable" : "RuleFired",
    rule: isUrgent ? undefined : spaceBytes >= inodesBytes ? RULE_NAMES.space : RULE_NAMES.inodes,
    sizeBytes: Math.min(wantedBytes, boundBytes, sizeBytes + STEP.maxBytes),
  };
}

function shrinkByHand({ claim, filesystem, ruleTimers, changes }: Facts, team: Team): HandWrittenPlan | undefined {
  const { reading, sizeBytes, history } = filesystem;
  const peakBytes = history.maxUsedBytes(DAY_MS, NOW_MS);
  if (typeof peakBytes !== "number" || reading === undefined) return hold("NotEnoughHistory", RULE_NAMES.shrink);
  if (!(peakBytes / reading.capacityBytes < team.shrinkBelowRatio)) return undefined;
  const [heldSinceMs = NOW_MS] = ruleTimers.heldSinceMs.values();
  if (NOW_MS - heldSinceMs < team.shrinkForMs) return hold("RulePending", RULE_NAMES.shrink);
  if (claim.fsType !== "btrfs") return hold("ShrinkUnsupported", RULE_NAMES.shrink);
  if (sizeBytes <= LIMITS.minBytes) return hold("AtMinimum", RULE_NAMES.shrink);
  const reserveBytes = Math.max(
    minAvailable(reading.capacityBytes, reading.growthBytesPerSecond ?? 0),
    RESERVE_MIN_BYTES,
  );
  const wantedBytes = Math.max(
    Math.ceil(Math.ceil(peakBytes / team.shrinkTargetRatio) / MIB) * MIB,
    Math.ceil(withRoomToMove(peakBytes + reserveBytes) / MIB) * MIB,
    LIMITS.minBytes,
    sizeBytes - STEP.maxBytes,
  );
  if (wantedBytes > sizeBytes - STEP.minBytes) return hold("StepTooSmall", RULE_NAMES.shrink);
  if ((reading.usedBytes * MARGIN) / wantedBytes >= team.extendAtRatio) return hold("WouldFlap", RULE_NAMES.shrink);
  const [shrunkAtMs = 0] = changes.shrinksAtMs;
  if (NOW_MS < shrunkAtMs + SHRINK_COOLDOWN_MS) return hold("CoolingDown", RULE_NAMES.shrink);
  return { kind: "shrink", reason: "RuleFired", rule: RULE_NAMES.shrink, sizeBytes: wantedBytes };
}

function minAvailable(capacityBytes: number, growthBytesPerSecond: number): number {
  return Math.ceil(Math.min(Math.max(0.05 * capacityBytes, 5 * growthBytesPerSecond), 0.2 * capacityBytes));
}

function hold(reason: string, rule?: string): HandWrittenPlan {
  return { kind: "hold", reason, rule, sizeBytes: undefined };
}

function withRoomToMove(bytes: number): number {
  return bytes + Math.min(1024 * MIB, bytes / 9);
}
