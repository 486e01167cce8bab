// V1 of the look at a million decisions: a rule that looks at this instant shrank 100 GiB to 11 GiB although 90 GiB were in use that day.
import { describe, expect, it } from "@jest/globals";
import type { VolumePolicySpec } from "../../../../src/contracts/kinds/volume-policy.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import type { UsageWindows } from "../../../../src/policy-engine/facts/facts.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import { aVolume } from "../../../builders/facts.ts";
import { playMonth, TRACES } from "../../../builders/month.ts";
import { aPolicy, EXTEND_AT_80 } from "../../../builders/policy.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const INSTANT = { name: "instant", action: "Shrink", when: "volume.usedRatio < 0.3", targetUsed: "50%" } as const;

type ShrinkBehavior = NonNullable<NonNullable<VolumePolicySpec["behavior"]>["shrink"]>;

function policyOf(shrink: ShrinkBehavior, when: string = INSTANT.when) {
  return aPolicy({
    mode: { extend: "Enforce", shrink: "Enforce" },
    limits: { min: "1Gi", max: "500Gi" },
    rules: [EXTEND_AT_80, { ...INSTANT, when }],
    behavior: { shrink },
  });
}

/** 90 GiB 20 hours ago, 20 GiB an hour and a half ago, 5 GiB since. */
const emptied: UsageWindows = {
  maxUsedBytes: (windowMs) => {
    if (windowMs > DAY_MS) return { missing: "there is a day of it" };
    if (windowMs >= 20 * HOUR_MS) return 90 * GIB;
    return (windowMs >= 1.5 * HOUR_MS ? 20 : 5) * GIB;
  },
  mostSeenBytes: () => 90 * GIB,
};
const facts = aVolume({ sizeBytes: 100 * GIB, usedRatio: 0.05, history: emptied });

describe("V1: however short a rule looks back, a shrink leaves what the peak of behavior.shrink.stabilization needs", () => {
  it.each<[string, ShrinkBehavior, string | undefined, object]>([
    [
      "a day where the policy does not say otherwise",
      {},
      undefined,
      { kind: "hold", reason: "StepTooSmall", message: expect.stringContaining("at the peak of the last 1d") },
    ],
    [
      "a day, too, for a rule with a window of a second",
      {},
      "volume.usedRatioMax('1s') < 0.3",
      { kind: "hold", reason: "StepTooSmall" },
    ],
    ["two hours where it says so", { stabilization: "2h" }, undefined, { kind: "shrink", sizeBytes: 40 * GIB }],
    ["this instant where it says so", { stabilization: "0s" }, undefined, { kind: "shrink", sizeBytes: 11 * GIB }],
    [
      "the rule's own window where that is longer",
      { stabilization: "1m" },
      "volume.usedRatioMax('24h') < 0.95",
      { kind: "hold", reason: "StepTooSmall" },
    ],
    [
      "and where that much has not been measured, nothing shrinks",
      { stabilization: "7d" },
      undefined,
      {
        kind: "hold",
        reason: "NotEnoughHistory",
        message: expect.stringContaining("behavior.shrink.stabilization"),
      },
    ],
  ])("%s", (_what, shrink, when, plan) => {
    expect(decide(facts, policyOf(shrink, when), NO_CEILINGS)).toMatchObject(plan);
  });

  it("of a shrink by a size of its own, too: it ends where the peak and its reserve are", () => {
    const policy = aPolicy({
      mode: { extend: "Enforce", shrink: "Enforce" },
      limits: { min: "1Gi", max: "500Gi" },
      rules: [EXTEND_AT_80, { name: "to-1", action: "Shrink", when: "volume.usedRatio < 0.3", to: "1Gi" }],
      behavior: { shrink: { stabilization: "2h" } },
    });
    const plan = decide(facts, policy, NO_CEILINGS);
    expect(plan).toMatchObject({ kind: "shrink" });
    expect(plan.kind === "shrink" && plan.sizeBytes).toBeGreaterThan(20 * GIB);
  });

  it.each(["8d", "169h"])("%s is refused: that much of a volume's use is not remembered", (stabilization) => {
    const policy = aPolicy({ behavior: { shrink: { stabilization } } });
    expect(policy.problems).toMatchObject([{ field: "spec.behavior.shrink.stabilization", hint: "write at most 7d" }]);
    expect(policy.rules).toEqual([]);
  });
});

describe("a month under a rule that looks at this instant alone", () => {
  it.each(Object.entries(TRACES))("has at most one flap with the default stabilization: %s", (_name, trace) => {
    const { flaps } = playMonth(policyOf({ cooldown: "1m" }), trace);
    expect(flaps).toBeLessThanOrEqual(1);
  });

  it("has many where the policy asks for none, which shows that the traces make them", () => {
    const months = Object.values(TRACES).map((trace) =>
      playMonth(policyOf({ cooldown: "1m", stabilization: "0s" }), trace),
    );
    expect(Math.max(...months.map(({ flaps }) => flaps))).toBeGreaterThan(20);
  });
});
