// What mode Approve holds, and what lets it go on: approvals, emergencies, and nothing else.
import { describe, expect, it } from "@jest/globals";
import type { VolumePolicySpec } from "../../../../src/contracts/kinds/volume-policy.ts";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import { emergencyGrant, grantLimit } from "../../../../src/policy-engine/decide/decide-precautions.ts";
import { explain } from "../../../../src/policy-engine/decide/explain-decision.ts";
import type { Facts } from "../../../../src/policy-engine/facts/facts.ts";
import type { Approval } from "../../../../src/policy-engine/policies/approvals.ts";
import { NO_CEILINGS, readCeilings } from "../../../../src/policy-engine/policies/ceilings.ts";
import { aVolume, NOW_MS, type VolumeShape } from "../../../builders/facts.ts";
import { aPolicy, EXTEND_AT_80, SHRINK_BELOW_30 } from "../../../builders/policy.ts";

const HOUR_MS = 3_600_000;
const APPROVE = { mode: { extend: "Approve", shrink: "Approve" } } as const;

const RECOMMEND = { extend: "Recommend", shrink: "Recommend" } as const;

const approval = (action: Approval["action"], boundBytes: number, notAfterMs = NOW_MS + HOUR_MS): Approval => ({
  ...{ name: "ok", wording: "u/1", action, boundBytes, notAfterMs },
});
const volume = (shape: VolumeShape, ...approvals: Approval[]): Facts =>
  aVolume({ ...shape, facts: { ...shape.facts, approvals } });
const full = (...approvals: Approval[]) => volume({ usedRatio: 0.9 }, ...approvals);
const empty = (...approvals: Approval[]) => volume({ usedRatio: 0.1 }, ...approvals);
const decided = (facts: Facts, spec: Partial<VolumePolicySpec> = APPROVE, ceilings = NO_CEILINGS) =>
  decide(facts, aPolicy(spec), ceilings);

describe("mode Approve", () => {
  it("shows an extend that it does not make, and says what to write", () => {
    expect(decided(full())).toMatchObject({
      ...{ kind: "hold", reason: "ApprovalRequired", preview: "extend from 10Gi to 15Gi" },
      awaits: { action: "Extend", sizeBytes: 15 * GIB },
      message: expect.stringContaining("write a ScalingApproval (action: Extend, notAbove: 15Gi)"),
    });
  });

  it("shows a shrink that it does not make, and says what to write", () => {
    expect(decided(empty())).toMatchObject({
      ...{ kind: "hold", reason: "ApprovalRequired", awaits: { action: "Shrink", sizeBytes: 2 * GIB } },
      message: expect.stringContaining("write a ScalingApproval (action: Shrink, notBelow: 2Gi)"),
    });
  });

  it("says what to write also where a larger rule only recommends", () => {
    const larger = { ...EXTEND_AT_80, name: "larger", targetUsed: "30%", mode: "Recommend" } as const;
    expect(decided(full(), { ...APPROVE, rules: [larger, EXTEND_AT_80] })).toMatchObject({
      ...{ kind: "hold", reason: "ApprovalRequired", rule: "extend-at-80" },
      awaits: { action: "Extend", sizeBytes: 15 * GIB },
    });
  });

  it("makes a change that an approval covers to the byte, and names the approval", () => {
    const extend = decided(full(approval("Extend", 15 * GIB)));
    expect(extend).toMatchObject({ kind: "extend", sizeBytes: 15 * GIB, approval: { name: "ok" } });
    expect(extend.message).toContain("approved by ok");
    expect(decided(empty(approval("Shrink", 2 * GIB)))).toMatchObject({ kind: "shrink", sizeBytes: 2 * GIB });
  });

  it.each<[string, Facts]>([
    ["ends a byte below the extend", full(approval("Extend", 15 * GIB - 1))],
    ["begins a byte above the shrink", empty(approval("Shrink", 2 * GIB + 1))],
    ["is over at this very instant", full(approval("Extend", 15 * GIB, NOW_MS))],
    ["is of shrinks, for an extend", full(approval("Shrink", GIB))],
    ["is of extends, for a shrink", empty(approval("Extend", 100 * GIB))],
  ])("waits where its approval %s", (_why, facts) => {
    expect(decided(facts)).toMatchObject({ kind: "hold", reason: "ApprovalRequired" });
  });

  it("says of an approval that is too narrow, or over, that it is", () => {
    expect(decided(full(approval("Extend", 12 * GIB))).message).toContain("ok ends at 12Gi");
    expect(decided(full(approval("Extend", 20 * GIB, NOW_MS - 1))).message).toContain(
      "ok ended 2026-11-20T11:59:59.999Z",
    );
  });

  it("lists in its explanation what is approved, and until when", () => {
    const { facts } = explain(full(approval("Extend", 15 * GIB)), aPolicy(APPROVE), NO_CEILINGS);
    expect(facts).toContainEqual({
      ...{ name: "approval", ageMs: undefined },
      value: "ok: Extend up to 15Gi until 2026-11-20T13:00:00.000Z",
    });
  });

  it("takes of several approvals one that covers", () => {
    const facts = full(
      approval("Extend", 11 * GIB),
      approval("Extend", 20 * GIB, NOW_MS - 1),
      approval("Extend", 16 * GIB),
    );
    expect(decided(facts)).toMatchObject({ kind: "extend", sizeBytes: 15 * GIB, approval: { boundBytes: 16 * GIB } });
  });

  it("leaves an approved change to cooldowns, limits and ceilings", () => {
    const facts = full(approval("Extend", 90 * GIB));
    const cooling = { ...facts, changes: { extendsAtMs: [NOW_MS - 1000], shrinksAtMs: [] } };
    expect(decided(cooling, { ...APPROVE, behavior: { extend: { cooldown: "1h" } } })).toMatchObject({
      reason: "CoolingDown",
    });
    expect(decided(facts, APPROVE, readCeilings("guard", { max: "12Gi" }))).toMatchObject({ sizeBytes: 12 * GIB });
  });

  it("lets a raised request go ahead, which is the claim's own promise, and has limits.min wait", () => {
    expect(decided(volume({ claim: { raisedRequestBytes: 20 * GIB } }))).toMatchObject({
      reason: "RequestRaised",
      kind: "extend",
    });
    expect(decided(volume({}), { ...APPROVE, limits: { min: "20Gi", max: "40Gi" } })).toMatchObject({
      ...{ kind: "hold", reason: "ApprovalRequired", awaits: { action: "Extend", sizeBytes: 20 * GIB } },
    });
  });
});

describe("the order of modes", () => {
  it("has a ceiling of Approve stand over Enforce, which an approval then allows", () => {
    const ceilings = readCeilings("guard", { max: "1Ti", modes: { extend: "Approve" } });
    expect(decided(full(), {}, ceilings)).toMatchObject({ reason: "ApprovalRequired" });
    expect(decided(full(), {}, ceilings).message).toContain("by ClusterVolumePolicy guard");
    expect(decided(full(approval("Extend", 15 * GIB)), {}, ceilings)).toMatchObject({ kind: "extend" });
  });

  it("has a ceiling of Recommend stand over Approve, whatever is approved", () => {
    const ceilings = readCeilings("guard", { max: "1Ti", modes: { extend: "Recommend" } });
    expect(decided(full(approval("Extend", 90 * GIB)), APPROVE, ceilings)).toMatchObject({ reason: "RecommendOnly" });
  });
});

describe("the mode of a rule", () => {
  const rules = (mode: "Enforce" | "Approve" | "Recommend") => [{ ...EXTEND_AT_80, mode }];

  it("stands in place of its policy's, both ways", () => {
    expect(decided(full(), { rules: rules("Approve") })).toMatchObject({ reason: "ApprovalRequired" });
    expect(decided(full(), { ...APPROVE, rules: rules("Enforce") })).toMatchObject({
      kind: "extend",
      sizeBytes: 15 * GIB,
    });
    expect(decided(full(), { rules: rules("Recommend") })).toMatchObject({ reason: "RecommendOnly" });
  });

  it("never goes beyond a ceiling of its direction", () => {
    const ceilings = readCeilings("guard", { max: "1Ti", modes: { extend: "Approve" } });
    expect(decided(full(), { ...APPROVE, rules: rules("Enforce") }, ceilings)).toMatchObject({
      reason: "ApprovalRequired",
    });
  });

  it("lets an enforced rule extend while a larger one waits, and the larger one once it is approved", () => {
    const large = {
      name: "large",
      action: "Extend",
      when: "volume.usedRatio >= 0.85",
      to: "40Gi",
      mode: "Approve",
    } as const;
    const spec = { rules: [EXTEND_AT_80, large] };
    expect(decided(full(), spec)).toMatchObject({ kind: "extend", rule: "extend-at-80", sizeBytes: 15 * GIB });
    expect(decided(full(approval("Extend", 40 * GIB)), spec)).toMatchObject({
      kind: "extend",
      rule: "large",
      sizeBytes: 40 * GIB,
    });
  });

  it("has the larger of two shrinks wait, although the smaller one is enforced", () => {
    const gentle = {
      name: "gentle",
      action: "Shrink",
      when: SHRINK_BELOW_30.when,
      to: "5Gi",
      mode: "Approve",
    } as const;
    expect(decided(empty(), { rules: [SHRINK_BELOW_30, gentle] })).toMatchObject({
      ...{ kind: "hold", reason: "ApprovalRequired", awaits: { action: "Shrink", sizeBytes: 5 * GIB } },
    });
  });
});

describe("approveAbove", () => {
  it("lets an enforced extend go up to it, and has the rest wait", () => {
    expect(decided(full(), { approveAbove: "12Gi" })).toMatchObject({ kind: "extend", sizeBytes: 12 * GIB });
    expect(decided(full(), { approveAbove: "12Gi" }).message).toContain("capped by approveAbove (12Gi)");
    expect(decided(full(), { approveAbove: "10Gi" })).toMatchObject({
      ...{ reason: "ApprovalRequired", awaits: { action: "Extend", sizeBytes: 15 * GIB } },
    });
    expect(decided(full(), { approveAbove: "15Gi" })).toMatchObject({ kind: "extend", sizeBytes: 15 * GIB });
  });

  it("is passed by what is approved", () => {
    const facts = full(approval("Extend", 15 * GIB));
    expect(decided(facts, { approveAbove: "12Gi" })).toMatchObject({ kind: "extend", sizeBytes: 15 * GIB });
  });

  it("says nothing about shrinks, and has no Recommend wait for an approval", () => {
    expect(decided(empty(), { approveAbove: "1Gi" })).toMatchObject({ kind: "shrink" });
    expect(decided(full(), { approveAbove: "12Gi", mode: { extend: "Recommend" } })).toMatchObject({
      reason: "RecommendOnly",
    });
  });
});

describe("a volume that is nearly full, in mode Approve", () => {
  const limits = { max: "100Gi", minAvailable: "1Gi" };
  const nearlyFull = volume({ usedRatio: 0.95 });

  it("grows without an approval until twice minAvailable is available, and no step more", () => {
    expect(decided(nearlyFull, { ...APPROVE, limits })).toMatchObject({
      ...{ kind: "extend", reason: "BelowMinAvailable", sizeBytes: 11.5 * GIB },
    });
  });

  it("waits for an approval where the policy says emergency: Disabled", () => {
    expect(decided(nearlyFull, { ...APPROVE, limits, emergency: "Disabled" })).toMatchObject({
      reason: "ApprovalRequired",
    });
  });

  it("is not nearly full by a minAvailable of more than a fifth of it, since who writes that approves nothing", () => {
    const spec = { ...APPROVE, limits: { max: "100Gi", minAvailable: "90Gi" } };
    expect(decided(volume({ usedRatio: 0.5 }), spec)).toMatchObject({ kind: "hold", reason: "ApprovalRequired" });
    expect(decided(volume({ usedRatio: 0.81 }), spec)).toMatchObject({ kind: "extend", sizeBytes: 12_391 * MIB });
  });

  it("has a grant for its agent of the same size, which takes nothing that needs an approval", () => {
    const grant = (spec: Partial<VolumePolicySpec>) =>
      emergencyGrant(aVolume(), aPolicy({ limits, ...spec }), NO_CEILINGS);
    expect(grant(APPROVE)).toMatchObject({ sizeBytes: 11 * GIB, minAvailableBytes: GIB });
    expect(grant({ approveAbove: "12Gi" })).toMatchObject({ sizeBytes: 12 * GIB });
    expect(grant({ rules: [{ ...EXTEND_AT_80, mode: "Approve" }] })).toMatchObject({ sizeBytes: 11 * GIB });
    expect(grant({ ...APPROVE, emergency: "Disabled" })).toBeUndefined();
  });

  it.each(["Approve", "Enforce"] as const)(
    "grows under mode Recommend as well, where a rule's own mode is %s",
    (mode) => {
      const spec = { mode: RECOMMEND, limits, rules: [{ ...EXTEND_AT_80, when: "volume.usedRatio > 0.999", mode }] };
      expect(decided(nearlyFull, spec)).toMatchObject({ kind: "extend", reason: "BelowMinAvailable" });
      expect(emergencyGrant(aVolume(), aPolicy(spec), NO_CEILINGS)).toBeDefined();
      const ceilings = readCeilings("guard", { modes: { extend: "Recommend" } });
      expect(decided(nearlyFull, spec, ceilings)).toMatchObject({ kind: "hold", reason: "RecommendOnly" });
      expect(emergencyGrant(aVolume(), aPolicy(spec), ceilings)).toBeUndefined();
      const recommended = { ...spec, rules: [{ ...EXTEND_AT_80, mode: "Recommend" as const }] };
      expect(decided(nearlyFull, recommended)).toMatchObject({ kind: "hold", reason: "RecommendOnly" });
    },
  );

  it("leaves of a grant that was written before no more than that while nothing is measured", () => {
    const limit = (spec: Partial<VolumePolicySpec>) => grantLimit(aVolume(), aPolicy({ limits, ...spec }), NO_CEILINGS);
    expect(limit({})).toBe(100 * GIB);
    expect(limit(APPROVE)).toBe(14 * GIB);
    expect(limit({ approveAbove: "12Gi" })).toBe(14 * GIB);
    expect(limit({ approveAbove: "20Gi" })).toBe(20 * GIB);
    expect(limit({ ...APPROVE, approveAbove: "20Gi" })).toBe(14 * GIB);
    expect(limit({ ...APPROVE, approveAbove: "20Gi", rules: [{ ...EXTEND_AT_80, mode: "Enforce" }] })).toBe(20 * GIB);
    expect(grantLimit(aVolume(), aPolicy({ limits, emergency: "Disabled" }), NO_CEILINGS)).toBe(0);
  });
});

describe("a shrink that runs in mode Approve", () => {
  const shrinking = (...approvals: Approval[]) =>
    volume(
      {
        usedRatio: 0.1,
        filesystem: {
          ...{ operationInProgress: "Shrink", policyShrink: "Running" },
          shrinkUnderWay: { sizeBytes: 2 * GIB, policy: "shop/default", rule: "shrink-below-30" },
        },
      },
      ...approvals,
    );

  it("goes on while an approval covers it", () => {
    const plan = decided(shrinking(approval("Shrink", 2 * GIB)));
    expect(plan).toMatchObject({ reason: "OperationInProgress" });
    expect(plan).not.toHaveProperty("stopsShrink");
  });

  it.each<[string, Approval[]]>([
    ["is over", [approval("Shrink", 2 * GIB, NOW_MS)]],
    ["is gone", []],
    ["begins above it", [approval("Shrink", 3 * GIB)]],
  ])("ends after its step where its approval %s", (_why, approvals) => {
    expect(decided(shrinking(...approvals))).toMatchObject({
      ...{ kind: "hold", reason: "ApprovalRequired", stopsShrink: true },
      message: expect.stringContaining("the shrink that runs ends after its step"),
    });
  });

  it("goes on without one where its own rule enforces it", () => {
    const plan = decided(shrinking(), { ...APPROVE, rules: [{ ...SHRINK_BELOW_30, mode: "Enforce" }] });
    expect(plan).not.toHaveProperty("stopsShrink");
  });

  const enforcing = { mode: { extend: "Enforce", shrink: "Enforce" } } as const;

  it.each<[string, VolumePolicySpec["rules"]]>([
    ["taken away", [EXTEND_AT_80]],
    ["renamed", [{ ...SHRINK_BELOW_30, name: "another" }]],
    ["made one of extends", [{ ...EXTEND_AT_80, name: "shrink-below-30" }]],
  ])("ends after its step where its rule is %s, although the policy's own mode is Enforce", (_why, rules) => {
    expect(decided(shrinking(), { ...enforcing, rules })).toMatchObject({
      ...{ kind: "hold", reason: "ApprovalRequired", stopsShrink: true },
      message: expect.stringContaining("since its rule shrink-below-30 is gone"),
    });
    expect(decided(shrinking(approval("Shrink", 2 * GIB)), { ...enforcing, rules })).not.toHaveProperty("stopsShrink");
    expect(decided(shrinking(approval("Shrink", 2 * GIB)), { ...enforcing, mode: RECOMMEND, rules })).toMatchObject({
      ...{ reason: "RecommendOnly", stopsShrink: true },
    });
  });

  it.each<["Approve" | "Enforce", boolean]>([
    ["Approve", true],
    ["Enforce", false],
  ])("is held to its rule's mode %s while the policy is invalid for its time", (mode, isStopped) => {
    const policy = aPolicy({ ...enforcing, rules: [{ ...SHRINK_BELOW_30, mode }] });
    const problem = { field: "spec.rules", message: "too slow" };
    const slow = { ...policy, rules: [], formerRules: policy.rules, problems: [problem] };
    const plan = decide(shrinking(), slow, NO_CEILINGS);
    expect(plan.kind === "hold" && plan.stopsShrink === true).toBe(isStopped);
  });

  it("of an ext4 that waits for its unmount begins no later than its approval ends", () => {
    const shape = { usedRatio: 0.1, claim: { fsType: "ext4" }, filesystem: { shrinksUnmounted: true } } as const;
    const facts = volume(
      { ...shape, reading: { inodesTotal: 100, inodesUsed: 1 } },
      approval("Shrink", GIB, NOW_MS + 60_000),
    );
    const windows = [{ cron: "0 12 * * *", duration: "1h" }];
    expect(decided(facts, { ...APPROVE, behavior: { shrink: { windows } } })).toMatchObject({
      ...{ kind: "shrink", notAfterMs: NOW_MS + 60_000 },
    });
  });
});
