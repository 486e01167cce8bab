// The invariants that a decision keeps for any facts whatever, good ones and nonsense.

import { describe, expect } from "@jest/globals";
import fc from "fast-check";
import { GIB, MIB, parseQuantity } from "../../../src/contracts/quantities/quantity.ts";
import { CHANGE_REASONS, HOLD_REASONS } from "../../../src/contracts/reasons.ts";
import { decide } from "../../../src/policy-engine/decide/decide.ts";
import { emergencyGrant, nextExtendUsedBytes } from "../../../src/policy-engine/decide/decide-precautions.ts";
import { explain } from "../../../src/policy-engine/decide/explain-decision.ts";
import { mostBytes, type Plan } from "../../../src/policy-engine/decide/plan.ts";
import { type Facts, NO_CHANGES } from "../../../src/policy-engine/facts/facts.ts";
import { type Ceilings, NO_CEILINGS } from "../../../src/policy-engine/policies/ceilings.ts";
import { compilePolicy } from "../../../src/policy-engine/policies/compile-policy.ts";
import type { CompiledPolicy } from "../../../src/policy-engine/policies/compiled-policy.ts";
import { PolicySet } from "../../../src/policy-engine/policies/select-policy.ts";
import {
  candidateFor,
  grantWithin,
  promisedBytes,
  type Stake,
  shareOf,
} from "../../../src/policy-engine/sizing/namespace-budget.ts";
import {
  actingPolicy,
  anyCeilings,
  dueFacts,
  emptyFacts,
  FIGURES_IN_DOUBT,
  fullFacts,
  MAX,
  mixedFacts,
  mixedPolicy,
  ORDER_IN_DOUBT,
  ratio,
  soundFacts,
} from "../../builders/any-facts.ts";
import { NOW_MS } from "../../builders/facts.ts";
import { aPolicySpec, aVolumePolicy, SHRINK_BELOW_30 } from "../../builders/policy.ts";
import { property } from "../../harness/property.ts";

// Generous: thousands of decisions are made on a machine that does other things, too.
const RUNS = 1000;

/** A size that measurements have asked for: the claim's own minimum needs none. */
function isMeasuredChange(plan: Plan): boolean {
  return plan.kind !== "hold" && plan.reason !== "BelowMinimum";
}

describe("decide, for any facts", () => {
  property(
    "never changes a size on figures that are absent, stale, NaN, negative, from the future or contradictory (I5)",
    { runs: RUNS, reaches: { "a change but for the doubt": 0.4 } },
    [dueFacts, fc.constantFrom(...FIGURES_IN_DOUBT, ...ORDER_IN_DOUBT), mixedPolicy, anyCeilings],
    (reach, facts, doubting, compiled, bounds) => {
      if (isMeasuredChange(decide(facts, compiled, bounds))) reach("a change but for the doubt");
      const doubtful = doubting(facts);
      expect(isMeasuredChange(decide(doubtful, compiled, bounds))).toBe(false);
      expect(emergencyGrant(doubtful, compiled, bounds)).toBeUndefined();
    },
  );

  property(
    "never extends beyond a running shrink on figures in doubt (I5)",
    { runs: RUNS, reaches: { "an extend but for the doubt": 0.3 } },
    [fullFacts, ratio(0.99, 1), fc.constantFrom(...FIGURES_IN_DOUBT), actingPolicy],
    (reach, facts, usedRatio, doubting, compiled) => {
      const shrinking = whileShrinking(facts, usedRatio);
      if (decide(shrinking, compiled, NO_CEILINGS).kind === "extend") reach("an extend but for the doubt");
      expect(decide(doubting(shrinking), compiled, NO_CEILINGS).kind).toBe("hold");
    },
  );

  property(
    "never shrinks while Prometheus is down (I5)",
    { runs: RUNS, reaches: { "a shrink but for that": 0.3 } },
    [fc.oneof(emptyFacts, emptyFacts, soundFacts), mixedPolicy, anyCeilings],
    (reach, facts, compiled, bounds) => {
      if (decide(facts, compiled, bounds).kind === "shrink") reach("a shrink but for that");
      expect(decide({ ...facts, metricsStale: true }, compiled, bounds).kind).not.toBe("shrink");
    },
  );

  property(
    "never shrinks while the clocks of node and engine differ, and extends all the same (I13)",
    { runs: RUNS, reaches: { "a shrink but for that": 0.15, "an extend": 0.15 } },
    [
      fc.oneof(emptyFacts, fullFacts),
      fc.constantFrom(-86_400_000, -10_001, 5001, 3_600_000, Number.NaN),
      mixedPolicy,
      anyCeilings,
    ],
    (reach, facts, aheadMs, compiled, bounds) => {
      const { filesystem } = facts;
      const reading = filesystem.reading && { ...filesystem.reading, aheadMs };
      const before = decide(facts, compiled, bounds);
      const plan = decide({ ...facts, filesystem: { ...filesystem, reading } }, compiled, bounds);
      if (before.kind === "shrink") reach("a shrink but for that");
      expect(plan.kind).not.toBe("shrink");
      if (before.kind !== "extend") return;
      reach("an extend");
      expect(plan).toEqual(before);
    },
  );

  property(
    "never shrinks under used + reserve, under the window's peak or under the minimum (I1)",
    { runs: RUNS, reaches: { "a shrink": 0.3, "one by the window's peak": 0.1, "one to the minimum": 0.02 } },
    [fc.oneof(emptyFacts, emptyFacts, mixedFacts), mixedPolicy, anyCeilings],
    (reach, facts, compiled, bounds) => {
      const plan = decide(facts, compiled, bounds);
      if (plan.kind !== "shrink") return;
      reach("a shrink");
      const { reading } = facts.filesystem;
      const peakWrite = reading?.peakWriteBytesPerSecond ?? 0;
      const usedBytes = reading?.usedBytes ?? Number.NaN;
      const wantedBytes = compiled.limits.minAvailableBytes ?? 0.05 * (reading?.capacityBytes ?? Number.NaN);
      expect(plan.sizeBytes).toBeGreaterThanOrEqual(usedBytes + Math.max(wantedBytes, 256 * MIB, 2 * peakWrite));
      const minBytes = compiled.limits.minBytes ?? facts.claim.initialSizeBytes;
      if (plan.sizeBytes < minBytes + MIB) reach("one to the minimum");
      expect(plan.sizeBytes).toBeGreaterThanOrEqual(minBytes);
      if (plan.rule === SHRINK_BELOW_30.name) {
        reach("one by the window's peak");
        const peakBytes = facts.filesystem.history.maxUsedBytes(86_400_000, NOW_MS) as number;
        expect(plan.sizeBytes).toBeGreaterThanOrEqual(peakBytes);
      }
      // Members are merged to the size that there is.
      expect(plan.sizeBytes).toBeLessThan(plan.fromBytes + (plan.members === undefined ? 0 : 1));
    },
  );

  property(
    "never extends over a maximum, a ceiling, a budget or the node's free space (I2, I10)",
    { runs: RUNS, reaches: { "an extend": 0.3, "one under a budget": 0.1, "one to the end of its bounds": 0.05 } },
    [fc.oneof(fullFacts, fullFacts, mixedFacts), mixedPolicy, anyCeilings],
    (reach, facts, compiled, bounds) => {
      const plan = decide(facts, compiled, bounds);
      const largestBytes = mostBytes(plan);
      if (plan.kind === "hold" || largestBytes === 0 || plan.growthBytes === 0) return;
      reach("an extend");
      const leftBytes = leftOf(facts, bounds, largestBytes, plan.fromBytes);
      expect(largestBytes).toBeGreaterThan(plan.fromBytes);
      if (bounds.namespaceBytes !== undefined) reach("one under a budget");
      if (leftBytes < MIB) reach("one to the end of its bounds");
      expect(leftBytes).toBeGreaterThanOrEqual(0);
    },
  );

  property(
    "never grants an emergency beyond what it would extend to itself (I2)",
    { runs: RUNS, reaches: { "a grant": 0.3, "one under a budget": 0.1, "one to the end of its bounds": 0.05 } },
    [fc.oneof(soundFacts, dueFacts, mixedFacts), fc.oneof(actingPolicy, mixedPolicy), anyCeilings],
    (reach, facts, compiled, bounds) => {
      const grant = emergencyGrant(facts, compiled, bounds);
      if (grant === undefined) return;
      reach("a grant");
      const leftBytes = leftOf(facts, bounds, grant.sizeBytes, facts.filesystem.sizeBytes);
      if (bounds.namespaceBytes !== undefined) reach("one under a budget");
      if (leftBytes < MIB) reach("one to the end of its bounds");
      expect(compiled.mode.extend).toBe("Enforce");
      expect(grant.sizeBytes).toBeGreaterThan(facts.filesystem.sizeBytes);
      expect(leftBytes).toBeGreaterThanOrEqual(0);
    },
  );

  property(
    "keeps all sizes of a namespace within its budget, decided in one batch and with every grant spent (I2)",
    { runs: RUNS, reaches: { "an extend": 0.3, "a grant": 0.3, "a budget that is short": 0.3 } },
    [
      fc.array(fc.tuple(fc.oneof(fullFacts, soundFacts), mixedPolicy, fc.constantFrom(0, 0, GIB)), {
        minLength: 2,
        maxLength: 6,
      }),
      fc.integer({ min: 1, max: 300 }),
    ],
    (reach, volumes, budgetGib) => {
      const budgetBytes = budgetGib * GIB;
      const stakes = volumes.map(([{ filesystem }, , grantedBytes], index) => stakeOf(index, filesystem, grantedBytes));
      const limitBytes = Math.max(budgetBytes, allPromised(stakes));
      const decided = volumes.map(([facts, compiled], index) => {
        const { plan, ...one } = decideOf(stakes, index, facts, compiled, budgetBytes);
        if (plan.kind === "extend") reach("an extend");
        return one;
      });
      expect(allPromised(stakes)).toBeLessThanOrEqual(limitBytes);
      for (const [index, { shared, grant }] of decided.entries()) {
        const stake = stakes[index] as Stake;
        const given = grantWithin(grant, shared, shareOf(stake, stakes, budgetBytes));
        if (given !== undefined) reach("a grant");
        if (grant !== undefined && given?.sizeBytes !== grant.sizeBytes) reach("a budget that is short");
        // What it held before it may still spend.
        stakes[index] = { ...stake, grantedBytes: Math.max(stake.grantedBytes, given?.sizeBytes ?? 0) };
      }
      expect(allPromised(stakes)).toBeLessThanOrEqual(limitBytes);
    },
  );

  property(
    "makes at most 60 changes an hour, emergencies aside (I6)",
    { runs: RUNS, reaches: { "a change but for the limit": 0.3 } },
    [dueFacts, mixedPolicy, anyCeilings, fc.integer({ min: 60, max: 200 })],
    (reach, facts, compiled, bounds, count) => {
      const isLimited = (plan: Plan): boolean => isMeasuredChange(plan) && plan.reason !== "BelowMinAvailable";
      // Of the last hour, and not so young that it is the cooldown which holds.
      const extendsAtMs = Array.from({ length: count }, (_, i) => NOW_MS - 3_500_000 + i * 1000);
      const without = decide({ ...facts, changes: NO_CHANGES }, compiled, bounds);
      if (isLimited(without)) reach("a change but for the limit");
      expect(isLimited(decide({ ...facts, changes: { extendsAtMs, shrinksAtMs: [] } }, compiled, bounds))).toBe(false);
    },
  );

  property(
    "always gives a public reason and a message, never throws, and says the same twice (I9)",
    { runs: RUNS, reaches: { hold: 0.2, extend: 0.1, shrink: 0.1 } },
    [mixedFacts, fc.option(mixedPolicy, { nil: undefined }), anyCeilings],
    (reach, facts, compiled, bounds) => {
      const plan = decide(facts, compiled, bounds);
      reach(plan.kind);
      const reasons: readonly string[] = plan.kind === "hold" ? HOLD_REASONS : CHANGE_REASONS;
      expect(reasons).toContain(plan.reason);
      expect(plan.message).not.toBe("");
      expect(decide(facts, compiled, bounds)).toEqual(plan);
      expect(explain(facts, compiled, bounds).plan).toEqual(plan);
    },
  );

  property(
    "names a next extend between what is used and minAvailable's crossing",
    { runs: RUNS, reaches: { "a next extend": 0.15 } },
    [soundFacts, mixedPolicy, anyCeilings],
    (reach, facts, compiled, bounds) => {
      const nextBytes = nextExtendUsedBytes(facts, compiled, bounds);
      if (nextBytes === undefined) return;
      reach("a next extend");
      expect(nextBytes).toBeLessThanOrEqual(facts.filesystem.reading?.capacityBytes ?? 0);
      expect(nextBytes).toBeGreaterThanOrEqual(0);
    },
  );
});

describe("selection", () => {
  const namespace = fc.constantFrom("shop", "pay", "web");
  property(
    "never lets a namespaced policy decide a claim of another namespace (I10)",
    { runs: 200, reaches: { "a policy": 0.2, none: 0.1 } },
    [fc.array(fc.tuple(namespace, fc.integer({ min: -2, max: 2 })), { maxLength: 6 }), namespace],
    (reach, made, of) => {
      const policies = made.map(([where, priority], i) =>
        compilePolicy(aVolumePolicy({ ...aPolicySpec(), priority }, { name: `p${i}`, namespace: where })),
      );
      const { policy: selected } = new PolicySet(policies, []).select(
        { namespace: of, labels: {}, storageClassName: "any" },
        {},
      );
      reach(selected === undefined ? "none" : "a policy");
      expect(selected?.selection.namespace ?? of).toBe(of);
      expect(selected === undefined).toBe(!made.some(([where]) => where === of));
    },
  );
});

/** What is left of the tightest bound when the filesystem has so much: the maximum, the ceiling, the budget, the node. */
function leftOf(facts: Facts, bounds: Ceilings, largestBytes: number, fromBytes: number): number {
  const grownBytes = largestBytes - fromBytes;
  return Math.min(
    parseQuantity(MAX) - largestBytes,
    (bounds.maxBytes?.value ?? 10 * facts.claim.nominalBytes) - largestBytes,
    (facts.node?.freeBytes ?? 0) - grownBytes,
    bounds.namespaceBytes === undefined
      ? Number.POSITIVE_INFINITY
      : bounds.namespaceBytes.value - facts.namespaceBytes - grownBytes,
  );
}

/** A shrink runs, and the volume is so full that it would run out of space even with that rolled back. */
function whileShrinking(facts: Facts, usedRatio: number): Facts {
  const { filesystem } = facts;
  const { reading, sizeBytes } = filesystem;
  const usedBytes = Math.floor(usedRatio * sizeBytes);
  const figures = { capacityBytes: sizeBytes, usedBytes, availableBytes: sizeBytes - usedBytes };
  return {
    ...facts,
    filesystem: { ...filesystem, operationInProgress: "Shrink", reading: reading && { ...reading, ...figures } },
  };
}

/** Decides one of a batch, and notes what it takes. */
function decideOf(stakes: Stake[], index: number, facts: Facts, compiled: CompiledPolicy, budgetBytes: number) {
  const bounds = { ...NO_CEILINGS, namespaceBytes: { value: budgetBytes, policy: "guard" } };
  const stake = stakes[index] as Stake;
  const othersBytes = allPromised(stakes) - promisedBytes(stake);
  const shared = { ...facts, namespaceBytes: facts.filesystem.sizeBytes + othersBytes };
  const plan = decide(shared, compiled, bounds);
  const candidate = candidateFor(shared, compiled, bounds, plan);
  stakes[index] = { ...stake, ...candidate, takenBytes: Math.max(mostBytes(plan), stake.takenBytes) };
  return { shared, plan, grant: candidate?.grant };
}

function stakeOf(index: number, { sizeBytes }: Facts["filesystem"], grantedBytes: number): Stake {
  const granted = grantedBytes === 0 ? 0 : sizeBytes + grantedBytes;
  return { handle: `v${index}`, takenBytes: sizeBytes, grantedBytes: granted, candidateBytes: 0, urgency: 0 };
}

function allPromised(stakes: readonly Stake[]): number {
  return stakes.reduce((sum, stake) => sum + promisedBytes(stake), 0);
}
