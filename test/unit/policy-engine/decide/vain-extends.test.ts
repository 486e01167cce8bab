// V2 of the look at a million decisions: an Extend rule that its own extend does not make false was followed to the limit within seconds,
// as pvc-autoresizer's issue 118 has it.
import { describe, expect, it } from "@jest/globals";
import type { VolumePolicySpec } from "../../../../src/contracts/kinds/volume-policy.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import type { Plan } from "../../../../src/policy-engine/decide/plan.ts";
import { advanceVainExtends } from "../../../../src/policy-engine/decide/vain-extends.ts";
import { NO_VAIN_EXTENDS } from "../../../../src/policy-engine/facts/facts.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import type { CompiledPolicy } from "../../../../src/policy-engine/policies/compiled-policy.ts";
import { aVolume, type VolumeShape } from "../../../builders/facts.ts";
import { aPolicy, EXTEND_AT_80 } from "../../../builders/policy.ts";

const BY_25 = { name: "by-25", action: "Extend", by: "25%" } as const;
const LIMITS = { min: "1Gi", max: "500Gi" };

function policyOf(when: string, spec: Partial<VolumePolicySpec> = {}): CompiledPolicy {
  return aPolicy({ limits: LIMITS, rules: [{ ...BY_25, when }], ...spec });
}

/** One volume, decided again and again; what is decided is there at once. */
class Story {
  sizeBytes = 10 * GIB;
  usedBytes = 5 * GIB;
  shape: VolumeShape = {};
  readonly sizesGib: number[] = [];
  #vainExtends = NO_VAIN_EXTENDS;

  decide(policy: CompiledPolicy): Plan {
    const { sizeBytes, usedBytes, shape } = this;
    const facts = aVolume({
      sizeBytes,
      usedRatio: usedBytes / sizeBytes,
      ...shape,
      facts: { vainExtends: this.#vainExtends, ...shape.facts },
    });
    const plan = decide(facts, policy, NO_CEILINGS);
    this.#vainExtends = advanceVainExtends(this.#vainExtends, policy, plan.heldRules);
    if (plan.kind !== "extend") return plan;
    this.sizeBytes = plan.sizeBytes;
    this.sizesGib.push(plan.sizeBytes / GIB);
    if (plan.vainExtend !== undefined) this.#vainExtends = new Map([[plan.vainExtend.timerKey, plan.vainExtend]]);
    return plan;
  }

  after(times: number, policy: CompiledPolicy): Plan {
    let plan = this.decide(policy);
    for (let i = 1; i < times; i += 1) plan = this.decide(policy);
    return plan;
  }
}

const IN_VAIN = { kind: "hold", reason: "ExtendDidNotHelp", rule: "by-25" };

describe("V2: an Extend rule that no size makes false has one step, and then waits", () => {
  it.each<[string, string, VolumeShape]>([
    ["asks what was used in the past", "volume.usedBytesMax('24h') > 4 * 1073741824", {}],
    ["asks for a label", "volume.labels.tier == 'cache'", {}],
    ["asks how fast the volume grows", "volume.growthBytesPerSecond > 1000.0", { growth: 5000 }],
    ["has its comparison reversed", "volume.usedRatio <= 0.8", {}],
    [
      "asks for inodes, of which the last extend brought none",
      "volume.inodesUsedRatio >= 0.9",
      { reading: { inodesTotal: 100, inodesUsed: 95 }, filesystem: { inodesPerByte: 0 } },
    ],
  ])("where it %s", (_what, when, shape) => {
    const story = new Story();
    story.shape = shape;
    expect(story.after(100, policyOf(when))).toMatchObject(IN_VAIN);
    expect(story.sizesGib).toEqual([12.5]);
  });

  it.each<[string, Partial<VolumePolicySpec>, VolumeShape]>([
    [
      "more of them are needed than one step of its size brings",
      { rules: [{ ...BY_25, by: "1Gi", when: "volume.usedRatio >= 0.8" }] },
      {},
    ],
    ["its step is cut by maxStep", { rules: [EXTEND_AT_80], behavior: { extend: { maxStep: "1Gi" } } }, {}],
    [
      "it asks for inodes, and what an extend brings is not known",
      { rules: [{ ...BY_25, when: "volume.inodesUsedRatio >= 0.9" }] },
      { reading: { inodesTotal: 100, inodesUsed: 95 } },
    ],
  ])("but not where %s", (_why, spec, shape) => {
    const story = new Story();
    [story.sizeBytes, story.usedBytes] = [20 * GIB, 18 * GIB];
    story.shape = shape;
    expect(story.after(2, aPolicy({ limits: LIMITS, ...spec }))).toMatchObject({ kind: "extend" });
  });

  const LABELLED = "volume.labels.tier == 'cache'";
  it.each<[string, (story: Story) => CompiledPolicy | undefined, number]>([
    ["its use has risen by 5%", (story) => void (story.usedBytes *= 1.06), 1],
    ["its use has risen by less", (story) => void (story.usedBytes *= 1.04), 0],
    ["its labels have changed", (story) => void (story.shape = { claim: { labels: { tier: "cache", size: "l" } } }), 1],
    [
      "its inodes have risen by 5%",
      (story) => void (story.shape = { reading: { inodesTotal: 1000, inodesUsed: 60 } }),
      1,
    ],
    ["the limits have changed", () => policyOf(LABELLED, { limits: { ...LIMITS, max: "400Gi" } }), 1],
    [
      "the rule asks for another size",
      () => policyOf(LABELLED, { rules: [{ ...BY_25, by: "30%", when: LABELLED }] }),
      1,
    ],
    ["the rule's condition has changed", () => policyOf(`${LABELLED} && volume.usedRatio > 0.01`), 1],
    [
      "the rule was false once",
      (story) => {
        story.shape = { claim: { labels: { tier: "web" } } };
        story.decide(policyOf(LABELLED));
        story.shape = {};
        return undefined;
      },
      1,
    ],
    ["nothing has", () => undefined, 0],
  ])("is followed again for one step where %s", (_what, change, more) => {
    const story = new Story();
    story.shape = { reading: { inodesTotal: 1000, inodesUsed: 50 } };
    story.after(10, policyOf(LABELLED));
    const policy = change(story) ?? policyOf(LABELLED);
    expect(story.after(10, policy)).toMatchObject(IN_VAIN);
    expect(story.sizesGib).toHaveLength(1 + more);
  });

  it.each<[string, Partial<VolumePolicySpec["rules"][number]>, number]>([
    ["stays where neither its condition nor its size reads them", { when: LABELLED, by: "25%" }, 0],
    ["is over where its condition does", { when: "'stage' in volume.annotations", by: "25%" }, 1],
    [
      "is over where its size does",
      { when: LABELLED, toExpression: "volume.capacityBytes + size(volume.annotations) * 1073741824" },
      1,
    ],
  ])("its wait, once another controller has changed an annotation of the claim, %s", (_what, rule, more) => {
    const policy = policyOf(LABELLED, { rules: [{ name: "by-25", action: "Extend", when: LABELLED, ...rule }] });
    const story = new Story();
    story.shape = { claim: { annotations: { stage: "1" } } };
    story.after(10, policy);
    story.shape = { claim: { annotations: { stage: "2" } } };
    expect(story.after(10, policy)).toMatchObject(IN_VAIN);
    expect(story.sizesGib).toHaveLength(1 + more);
  });

  it("never holds what minAvailable, limits.min or a raised request ask for, nor another rule", () => {
    const both = aPolicy({ limits: { ...LIMITS, min: "1Gi" }, rules: [EXTEND_AT_80, { ...BY_25, when: LABELLED }] });
    const story = new Story();
    expect(story.after(10, both)).toMatchObject(IN_VAIN);
    const before = story.sizeBytes;
    story.usedBytes = before * 0.85;
    story.shape = { reading: { inodesTotal: 0, inodesUsed: 0 } };
    expect(story.decide(both)).toMatchObject({ kind: "extend" });
    story.after(10, both);
    story.shape = { claim: { raisedRequestBytes: 30 * GIB } };
    expect(story.decide(both)).toMatchObject({ kind: "extend", reason: "RequestRaised" });
    story.usedBytes = story.sizeBytes - 1;
    expect(story.decide(both)).toMatchObject({ kind: "extend", reason: "BelowMinAvailable" });
  });

  it("is asked again before a writer has filled what its step gave, however large the filesystem is", () => {
    const story = new Story();
    [story.sizeBytes, story.usedBytes] = [250 * GIB, 230 * GIB];
    const policy = policyOf("volume.growthBytesPerSecond > 10485760.0", {
      limits: { ...LIMITS, minAvailable: "1Gi" },
      rules: [{ ...BY_25, by: "10Gi", when: "volume.growthBytesPerSecond > 10485760.0" }],
    });
    story.shape = { claim: { nominalBytes: 250 * GIB }, growth: 60 * 1024 * 1024 };
    let leastBytes = Number.POSITIVE_INFINITY;
    while (story.usedBytes < 400 * GIB) {
      story.usedBytes += GIB;
      story.decide(policy);
      leastBytes = Math.min(leastBytes, story.sizeBytes - story.usedBytes);
    }
    expect(leastBytes).toBeGreaterThan(15 * GIB);
    expect(story.after(50, policy)).toMatchObject(IN_VAIN);
  });

  it.each<[string, string]>([
    ["the time", "now > timestamp('2027-01-01T00:00:00Z') ? quantity('60Gi') : quantity('50Gi')"],
    ["what is in use", "volume.usedBytes * 10"],
  ])("does not hold a rule that asks for a size by %s, and for no more once that is there", (_by, toExpression) => {
    const story = new Story();
    const policy = policyOf(LABELLED, { rules: [{ name: "sized", action: "Extend", when: LABELLED, toExpression }] });
    expect(story.after(5, policy)).toMatchObject({ kind: "hold", reason: "StepTooSmall" });
    expect(story.sizesGib).toEqual([50]);
  });

  it("holds one that asks for more the more there is", () => {
    const story = new Story();
    const toExpression = "volume.capacityBytes * 1.25";
    const policy = policyOf(LABELLED, { rules: [{ name: "by-25", action: "Extend", when: LABELLED, toExpression }] });
    expect(story.after(20, policy)).toMatchObject(IN_VAIN);
    expect(story.sizesGib).toEqual([12.5]);
  });

  it("goes on to the size that the rule asked for where maxStep cuts it, and no further", () => {
    const story = new Story();
    const policy = policyOf(LABELLED, {
      rules: [{ ...BY_25, by: "5Gi", when: LABELLED }],
      behavior: { extend: { maxStep: "2Gi" } },
    });
    expect(story.after(20, policy)).toMatchObject(IN_VAIN);
    expect(story.sizesGib).toEqual([12, 14, 16]);
  });

  it("does not wait after an extend that was not made: it is asked for again", () => {
    const story = new Story();
    for (let i = 0; i < 3; i += 1) {
      story.sizeBytes = 10 * GIB;
      expect(story.decide(policyOf(LABELLED))).toMatchObject({ kind: "extend", sizeBytes: 12.5 * GIB });
    }
  });

  it("leaves no room for a shrink: the rule still asks for more", () => {
    const policy = policyOf(LABELLED, {
      mode: { extend: "Enforce", shrink: "Enforce" },
      rules: [
        { ...BY_25, when: LABELLED },
        { name: "small", action: "Shrink", when: "volume.usedRatio < 0.9", targetUsed: "90%" },
      ],
    });
    expect(new Story().after(10, policy)).toMatchObject(IN_VAIN);
  });
});
