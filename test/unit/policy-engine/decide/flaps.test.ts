// A shrink that has to be taken back within a day was for nothing: the second one within a week is the last for a week.
import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import type { VolumePolicySpec } from "../../../../src/contracts/kinds/volume-policy.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import type { Facts, UsageWindows } from "../../../../src/policy-engine/facts/facts.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import type { CompiledPolicy } from "../../../../src/policy-engine/policies/compiled-policy.ts";
import { aVolume, NOW_MS, type VolumeShape } from "../../../builders/facts.ts";
import { playMonth, TRACES } from "../../../builders/month.ts";
import { aPolicy, EXTEND_AT_80 } from "../../../builders/policy.ts";
import { property } from "../../../harness/property.ts";

const HOUR_MS = 3_600_000;
const INSTANT = { name: "instant", action: "Shrink", when: "volume.usedRatio < 0.3", targetUsed: "50%" } as const;

function policyOf(stabilization: string | undefined, spec: Partial<VolumePolicySpec> = {}): CompiledPolicy {
  return aPolicy({
    mode: { extend: "Enforce", shrink: "Enforce" },
    limits: { min: "1Gi", max: "500Gi" },
    rules: [EXTEND_AT_80, INSTANT],
    behavior: { shrink: { cooldown: "1m", ...(stabilization === undefined ? {} : { stabilization }) } },
    ...spec,
  });
}

/** An extend that is due, so many hours after a shrink, of a volume that used up to 9 GiB in the day before that. */
function growingBack(hours: number, shape: VolumeShape = {}): Facts {
  return aVolume({
    usedRatio: 0.9,
    ...shape,
    facts: {
      changes: { extendsAtMs: [], shrinksAtMs: [NOW_MS - hours * HOUR_MS] },
      flaps: { atMs: [], peakBeforeShrinkBytes: 9 * GIB },
      ...shape.facts,
    },
  });
}

describe("an extend is a flap", () => {
  it.each<[string, Facts, CompiledPolicy, boolean]>([
    ["within a day after a shrink, at no more use than before it", growingBack(23.9), policyOf("1h"), true],
    [
      "for minAvailable as well",
      growingBack(1, { usedRatio: 0.9 }),
      policyOf("1h", { limits: { min: "1Gi", max: "500Gi", minAvailable: "2Gi" } }),
      true,
    ],
    [
      "not where one has taken the same shrink back already",
      growingBack(2, { facts: { flaps: { atMs: [NOW_MS - HOUR_MS], peakBeforeShrinkBytes: 9 * GIB } } }),
      policyOf("1h"),
      false,
    ],
    ["not after a day", growingBack(24), policyOf("1h"), false],
    ["not at more use than before", growingBack(1, { usedRatio: 0.91 }), policyOf("1h"), false],
    [
      "not where a person has raised the request",
      growingBack(1, { usedRatio: 0.5, claim: { raisedRequestBytes: 20 * GIB } }),
      policyOf("1h"),
      false,
    ],
    [
      "not where what was used before the shrink is not known",
      growingBack(1, { facts: { flaps: undefined } }),
      policyOf("1h"),
      false,
    ],
    ["not under a policy that shrinks and grows by the second", growingBack(1), policyOf("59s"), false],
  ])("%s", (_when, facts, policy, expected) => {
    const plan = decide(facts, policy, NO_CEILINGS);
    expect(plan.kind).toBe("extend");
    expect("flap" in plan && plan.flap === true).toBe(expected);
  });
});

/** So much 20 hours before, 1 GiB since. */
function historyOf(peakGib: number): UsageWindows {
  const maxUsedBytes = (windowMs: number): number => (windowMs >= 20 * HOUR_MS ? peakGib : 1) * GIB;
  return { maxUsedBytes, mostSeenBytes: maxUsedBytes };
}
const emptied = historyOf(8);

function emptyAfter(flapsAtHours: readonly number[]): Facts {
  return aVolume({
    usedRatio: 0.1,
    history: emptied,
    facts: { flaps: { atMs: flapsAtHours.map((hours) => NOW_MS - hours * HOUR_MS), peakBeforeShrinkBytes: 9 * GIB } },
  });
}

describe("a filesystem that flapped twice within a week keeps the room of its daily peak", () => {
  const HELD = { kind: "hold", reason: "WouldFlap", rule: "instant" };
  it.each<[string, readonly number[], string, object]>([
    ["for a week from the second flap", [100, 1], "1h", { ...HELD, nextEligibleMs: NOW_MS + 167 * HOUR_MS }],
    ["and shrinks as the policy says after that", [300, 168], "1h", { kind: "shrink" }],
    ["but not after one", [1], "1h", { kind: "shrink" }],
    ["nor after two that are a week apart", [169, 1], "1h", { kind: "shrink" }],
    ["nor where the policy's stabilization is under a minute", [2, 1], "59s", { kind: "shrink" }],
    ["and not for less than the policy says itself", [2, 1], "2d", { kind: "hold", reason: "StepTooSmall" }],
  ])("%s", (_what, flaps, stabilization, plan) => {
    expect(decide(emptyAfter(flaps), policyOf(stabilization), NO_CEILINGS)).toMatchObject(plan);
  });

  it("and still gives back what the peak of the day leaves", () => {
    const history = historyOf(3);
    const facts = { ...emptyAfter([2, 1]), filesystem: { ...emptyAfter([]).filesystem, history } };
    const plan = decide(facts, policyOf("1h"), NO_CEILINGS);
    expect(plan).toMatchObject({ kind: "shrink", sizeBytes: 6 * GIB, peakBytes: 3 * GIB });
  });
});

const percents = (min: number, max: number) => fc.integer({ min, max });
const anyTrace = fc.constantFrom(...Object.entries(TRACES));
const anyRules = fc
  .record({
    at: percents(65, 95),
    to: percents(30, 59),
    below: percents(25, 60),
    target: percents(50, 95),
    looks: fc.constantFrom("", "1m", "1h", "12h"),
  })
  .map(({ at, to, below, target, looks }): VolumePolicySpec["rules"] => [
    { name: "extend", action: "Extend", when: `volume.usedRatio >= ${at / 100}`, targetUsed: `${to}%` },
    {
      name: "shrink",
      action: "Shrink",
      when: `${looks === "" ? "volume.usedRatio" : `volume.usedRatioMax('${looks}')`} < ${below / 100}`,
      targetUsed: `${target}%`,
    },
  ]);

describe("in a month a volume flaps", () => {
  property(
    "at most once by any rules with the default stabilization",
    { runs: 40, reaches: { "an extend": 0.1, "a shrink": 0.1 } },
    [anyRules, anyTrace],
    (reach, rules, [, trace]) => {
      const month = playMonth(policyOf(undefined, { rules }), trace);
      if (month.extends > 0) reach("an extend");
      if (month.shrinks > 0) reach("a shrink");
      expect(month.flaps).toBeLessThanOrEqual(1);
    },
  );

  property(
    "at most 12 times by any rules with a stabilization of a minute or more",
    { runs: 40, reaches: { "a flap": 0.2, "more than two": 0.1 } },
    [anyRules, fc.constantFrom("1m", "10m", "1h", "6h", "12h"), anyTrace],
    (reach, rules, stabilization, [, trace]) => {
      const month = playMonth(policyOf(stabilization, { rules }), trace);
      if (month.flaps > 0) reach("a flap");
      if (month.flaps > 2) reach("more than two");
      expect(month.flaps).toBeLessThanOrEqual(12);
    },
  );
});
