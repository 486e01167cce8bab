// What approvals can do for any facts whatever: they let happen what the policy plans, within its bounds, and nothing else.
import { describe, expect } from "@jest/globals";
import fc from "fast-check";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import type { Plan } from "../../../../src/policy-engine/decide/plan.ts";
import type { Facts } from "../../../../src/policy-engine/facts/facts.ts";
import type { Approval } from "../../../../src/policy-engine/policies/approvals.ts";
import type { CompiledPolicy } from "../../../../src/policy-engine/policies/compiled-policy.ts";
import { actingPolicy, anyCeilings, dueFacts, mixedFacts, mixedPolicy } from "../../../builders/any-facts.ts";
import { NOW_MS } from "../../../builders/facts.ts";
import { property } from "../../../harness/property.ts";

const RUNS = 1000;
const asking = (policy: CompiledPolicy, emergency = true): CompiledPolicy => ({
  ...policy,
  mode: { extend: "Approve", shrink: "Approve" },
  growsInEmergencies: emergency,
});
const enforcing = (policy: CompiledPolicy): CompiledPolicy => ({
  ...policy,
  mode: { extend: "Enforce", shrink: "Enforce" },
});
const approval = (action: Approval["action"], boundBytes: number, notAfterMs = NOW_MS + 1): Approval => ({
  ...{ name: "any", wording: "u/1", action, boundBytes, notAfterMs },
});
const approved = (facts: Facts, ...approvals: Approval[]): Facts => ({ ...facts, approvals });
const ALL = [approval("Extend", Number.MAX_SAFE_INTEGER), approval("Shrink", 0)];
const essence = ({ kind, reason, rule, ...plan }: Plan) => ({
  kind,
  reason,
  rule,
  sizeBytes: "sizeBytes" in plan && plan.sizeBytes,
});

describe("decide, in mode Approve", () => {
  property(
    "without an approval changes nothing but for a raised request and a volume that is nearly full (I2)",
    { runs: RUNS, reaches: { "a change but for that": 0.3, "one that is nearly full": 0.03 } },
    [fc.oneof(dueFacts, mixedFacts), fc.oneof(actingPolicy, mixedPolicy), anyCeilings],
    (reach, facts, policy, bounds) => {
      if (decide(facts, enforcing(policy), bounds).kind !== "hold") reach("a change but for that");
      const plan = decide(facts, asking(policy), bounds);
      if (plan.kind === "hold") return;
      expect(["RequestRaised", "BelowMinAvailable"]).toContain(plan.reason);
      if (plan.reason !== "BelowMinAvailable") return;
      reach("one that is nearly full");
      const { capacityBytes = Number.NaN, usedBytes = Number.NaN } = facts.filesystem.reading ?? {};
      const scale = facts.filesystem.sizeBytes / capacityBytes;
      expect(plan.sizeBytes).toBeLessThanOrEqual(scale * (usedBytes + 0.4 * capacityBytes) + 2 ** 20);
      expect(decide(facts, asking(policy, false), bounds).kind).toBe("hold");
    },
  );

  property(
    "with everything approved decides what Enforce does, so that no approval lets a size leave limits, ceilings or the peak (I2)",
    { runs: RUNS, reaches: { "an extend": 0.2, "a shrink": 0.1 } },
    [fc.oneof(dueFacts, mixedFacts), fc.oneof(actingPolicy, mixedPolicy), anyCeilings],
    (reach, facts, policy, bounds) => {
      const plan = decide(approved(facts, ...ALL), asking(policy), bounds);
      if (plan.kind === "extend") reach("an extend");
      if (plan.kind === "shrink") reach("a shrink");
      expect(essence(plan)).toEqual(essence(decide(facts, enforcing(policy), bounds)));
    },
  );

  property(
    "makes no change beyond what is approved, and none by what is over",
    { runs: RUNS, reaches: { "a change by the approval": 0.1 } },
    [dueFacts, actingPolicy, anyCeilings, fc.integer({ min: 1, max: 60 }), fc.constantFrom(-1, 0, 1)],
    (reach, facts, policy, bounds, gib, leftMs) => {
      const ok = [approval("Extend", gib * GIB, NOW_MS + leftMs), approval("Shrink", gib * GIB, NOW_MS + leftMs)];
      const plan = decide(approved({ ...facts, nowMs: NOW_MS }, ...ok), asking(policy, false), bounds);
      if (plan.kind === "hold" || plan.reason === "RequestRaised") return;
      reach("a change by the approval");
      expect(leftMs).toBe(1);
      if (plan.kind === "extend") expect(plan.sizeBytes).toBeLessThanOrEqual(gib * GIB);
      else expect(plan.sizeBytes).toBeGreaterThanOrEqual(gib * GIB);
    },
  );
});
