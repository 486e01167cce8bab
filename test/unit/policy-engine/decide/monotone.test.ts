// What may not matter to a decision, and in which direction what matters does: more use never gives a smaller size by the same rule, and no
// order of rules, labels or variables gives another one.
import { describe, expect } from "@jest/globals";
import fc from "fast-check";
import type { VolumePolicySpec } from "../../../../src/contracts/kinds/volume-policy.ts";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import type { Plan } from "../../../../src/policy-engine/decide/plan.ts";
import type { Facts } from "../../../../src/policy-engine/facts/facts.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import { ratio } from "../../../builders/any-facts.ts";
import { aVolume, steadyHistory } from "../../../builders/facts.ts";
import { aPolicy } from "../../../builders/policy.ts";
import { property } from "../../../harness/property.ts";

type Rule = VolumePolicySpec["rules"][number];
const RUNS = 300;
const SIZE_BYTES = 40 * GIB;

const percents = (min: number, max: number) => fc.integer({ min, max });
/** Where a size is halved towards, and rounded to, no finer difference means anything: 1/256 of what there is, and a MiB. */
const FINEST_BYTES = SIZE_BYTES / 256 + MIB;

function sizeAfter(plan: Plan): number {
  return plan.kind === "hold" ? SIZE_BYTES : plan.sizeBytes;
}

function policyOf(rules: readonly Rule[], more: Partial<VolumePolicySpec> = {}) {
  return aPolicy({
    limits: { min: "1Gi", max: "500Gi" },
    behavior: { extend: { minStep: "1Mi" }, shrink: { minStep: "1Mi", cooldown: "1m" } },
    rules: [...rules],
    ...more,
  });
}

function using(usedRatio: number): Facts {
  const history = steadyHistory(Math.round(usedRatio * SIZE_BYTES));
  return aVolume({ sizeBytes: SIZE_BYTES, usedRatio, history });
}

const EXTENDS = fc
  .record({
    at: percents(50, 95),
    size: fc.constantFrom({ targetUsed: "45%" }, { by: "20%" }, { by: "7Gi" }, { to: "70Gi" }),
  })
  .map(
    ({ at, size }): Rule => ({ name: "extend", action: "Extend", when: `volume.usedRatio >= ${at / 100}`, ...size }),
  );
const SHRINKS = fc
  .record({
    below: percents(20, 60),
    size: fc.constantFrom({ targetUsed: "70%" }, { targetUsed: "90%" }, { by: "20%" }, { by: "7Gi" }, { to: "9Gi" }),
    reads: fc.constantFrom("volume.usedRatio", "volume.usedRatioMax('1h')", "volume.usedRatioMax('2d')"),
  })
  .map(
    ({ below, size, reads }): Rule => ({
      name: "shrink",
      action: "Shrink",
      when: `${reads} < ${below / 100}`,
      ...size,
    }),
  );

describe("more use", () => {
  property(
    "never gives a smaller size by one Extend rule",
    { runs: RUNS, reaches: { "an extend": 0.3, "a hold and an extend": 0.1 } },
    [EXTENDS, ratio(0.4, 0.99), ratio(0, 0.3)],
    (reach, rule, usedRatio, more) => {
      const [less, greater] = [usedRatio, Math.min(0.99, usedRatio + more)].map((used) =>
        decide(using(used), policyOf([rule]), NO_CEILINGS),
      ) as [Plan, Plan];
      if (greater.kind === "extend") reach("an extend");
      if (greater.kind === "extend" && less.kind === "hold") reach("a hold and an extend");
      expect(sizeAfter(greater)).toBeGreaterThanOrEqual(sizeAfter(less));
    },
  );

  property(
    "never gives a smaller size by one Shrink rule next to an Extend rule",
    { runs: RUNS, reaches: { "a shrink": 0.3, "two shrinks": 0.1, "a shrink and none": 0.1 } },
    [SHRINKS, EXTENDS, ratio(0, 0.6), ratio(0, 0.3)],
    (reach, rule, extend, usedRatio, more) => {
      const policy = policyOf([rule, extend]);
      const less = decide(using(usedRatio), policy, NO_CEILINGS);
      const greater = decide(using(usedRatio + more), policy, NO_CEILINGS);
      if (less.kind === "shrink") reach("a shrink");
      if (less.kind === "shrink") reach(greater.kind === "shrink" ? "two shrinks" : "a shrink and none");
      expect(sizeAfter(greater)).toBeGreaterThanOrEqual(sizeAfter(less) - FINEST_BYTES);
    },
  );
});

function reversed<Value>(record: Readonly<Record<string, Value>>): Record<string, Value> {
  return Object.fromEntries(Object.entries(record).reverse());
}

describe("no order", () => {
  property(
    "of rules gives another size",
    { runs: RUNS, reaches: { "an extend": 0.15, "a shrink": 0.1 } },
    [fc.array(fc.oneof(EXTENDS, SHRINKS), { minLength: 2, maxLength: 5 }), ratio(0, 0.99), fc.infiniteStream(fc.nat())],
    (reach, drawn, usedRatio, shuffle) => {
      const rules = drawn.map((rule, index): Rule => ({ ...rule, name: `${rule.name}-${index}` }));
      const order = new Map(rules.map((rule) => [rule, shuffle.next().value ?? 0]));
      const shuffled = [...rules].sort((a, b) => (order.get(a) ?? 0) - (order.get(b) ?? 0));
      const plan = decide(using(usedRatio), policyOf(rules), NO_CEILINGS);
      const other = decide(using(usedRatio), policyOf(shuffled), NO_CEILINGS);
      if (plan.kind !== "hold") reach(plan.kind === "extend" ? "an extend" : "a shrink");
      expect([other.kind, sizeAfter(other)]).toEqual([plan.kind, sizeAfter(plan)]);
    },
  );

  property(
    "of labels and annotations gives another plan",
    { runs: RUNS, reaches: { "an extend": 0.3, none: 0.2 } },
    [
      fc.dictionary(fc.stringMatching(/^[a-z]{1,4}$/), fc.constantFrom("a", "b"), {
        minKeys: 2,
        maxKeys: 8,
        noNullPrototype: true,
      }),
      fc.constantFrom(
        "exists(k, k < 'm')",
        "all(k, k != 'ab')",
        "exists_one(k, k.startsWith('a'))",
        "filter(k, k.size() > 2).size() > 1",
      ),
      fc.constantFrom("labels", "annotations"),
    ],
    (reach, keys, macro, map) => {
      const when = `volume.usedRatio >= 0.5 && volume.${map}.${macro.replace("k < 'm'", "k.matches('^[a-f]')")}`;
      const policy = policyOf([{ name: "extend", action: "Extend", when, by: "20%" }]);
      const plan = decide(aVolume({ sizeBytes: SIZE_BYTES, claim: { [map]: keys } }), policy, NO_CEILINGS);
      const other = decide(aVolume({ sizeBytes: SIZE_BYTES, claim: { [map]: reversed(keys) } }), policy, NO_CEILINGS);
      reach(plan.kind === "extend" ? "an extend" : "none");
      expect(other).toEqual(plan);
    },
  );
});
