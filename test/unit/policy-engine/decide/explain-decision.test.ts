import { describe, expect, it } from "@jest/globals";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import { explain } from "../../../../src/policy-engine/decide/explain-decision.ts";
import { sameConclusion } from "../../../../src/policy-engine/decide/plan.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import { aVolume, NOW_MS } from "../../../builders/facts.ts";
import { aPolicy, EXTEND_AT_80, SHRINK_BELOW_30 } from "../../../builders/policy.ts";

describe("explain", () => {
  const policy = aPolicy({
    rules: [
      EXTEND_AT_80,
      { ...SHRINK_BELOW_30, for: "1h" },
      { name: "label", action: "Extend", when: "volume.labels['x'] == 'y'", by: "1Gi" },
    ],
  });
  const explained = explain(aVolume({ usedRatio: 0.2 }), policy, NO_CEILINGS);

  it("shows each fact with its age", () => {
    expect(explained.facts).toContainEqual({ name: "used", value: "2Gi (20%)", ageMs: 200 });
    expect(explained.facts).toContainEqual({ name: "most used in 1d", value: "2Gi", ageMs: undefined });
  });

  it("counts what was changed", () => {
    const changes = { extendsAtMs: [NOW_MS - 60_000], shrinksAtMs: [] };
    const { facts } = explain({ ...aVolume({ usedRatio: 0.2 }), changes }, policy, NO_CEILINGS);
    expect(facts).toContainEqual(expect.objectContaining({ name: "changes in 24h", value: "1 extend, 0 shrinks" }));
  });

  it("shows what each rule says, or why it is unknown", () => {
    expect(explained.rules).toMatchObject([
      { name: "extend-at-80", verdict: "does not hold" },
      { name: "shrink-below-30", verdict: "holds", forMs: 3_600_000, candidateBytes: 4 * GIB },
      { name: "label", verdict: "unknown", because: expect.stringMatching(/x/) },
    ]);
  });

  it("shows the bounds, who sets them and the next extend", () => {
    expect(explained).toMatchObject({
      lowerBytes: GIB,
      lowerBy: "limits.min (1Gi)",
      upperBytes: 100 * GIB,
      upperBy: expect.stringMatching(/limits\.max/),
    });
    expect(explained.nextExtendUsedBytes).toBeGreaterThan(7 * GIB);
  });

  it("shows the plan that decide makes", () => {
    expect(explained.plan).toEqual(decide(aVolume({ usedRatio: 0.2 }), policy, NO_CEILINGS));
  });

  it("is plain JSON", () => {
    expect(JSON.parse(JSON.stringify(explained))).toMatchObject({ claim: "shop/data-0", atMs: NOW_MS });
  });
});

describe("two plans", () => {
  const at = (usedRatio: number, spec = {}) => decide(aVolume({ usedRatio }), aPolicy(spec), NO_CEILINGS);
  const recommended = { mode: { extend: "Recommend", shrink: "Recommend" } } as const;

  it("tell a reader the same when only figures moved a little", () => {
    expect(sameConclusion(at(0.5), at(0.6))).toBe(true);
    expect(sameConclusion(at(0.85, recommended), at(0.86, recommended))).toBe(true);
  });

  it("tell a reader the same when the time that they wait for differs by a fraction that clocks bring forth", () => {
    const cooling = (lateMs: number) => {
      const facts = aVolume({ usedRatio: 0.9 });
      const changes = { extendsAtMs: [facts.monotonicMs - 1000], shrinksAtMs: [] };
      const policyOfHours = aPolicy({ behavior: { extend: { cooldown: "1h" } } });
      return decide({ ...facts, nowMs: facts.nowMs + lateMs, changes }, policyOfHours, NO_CEILINGS);
    };
    expect(cooling(0)).toMatchObject({ reason: "CoolingDown" });
    expect(sameConclusion(cooling(0), cooling(0.6))).toBe(true);
    expect(sameConclusion(cooling(0), cooling(60_000))).toBe(false);
  });

  it("tell a reader something new when reason, rule or size differ", () => {
    expect(sameConclusion(at(0.5), at(0.9))).toBe(false);
    expect(sameConclusion(at(0.85, recommended), at(0.95, recommended))).toBe(false);
    expect(sameConclusion(at(0.85), at(0.86))).toBe(false);
  });
});
