// On which volumes a policy's rules fail, from one decision to the next.
import { describe, expect, it } from "@jest/globals";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import type { CompiledPolicy } from "../../../../src/policy-engine/policies/compiled-policy.ts";
import { createRuleErrors } from "../../../../src/policy-engine/report/rule-errors.ts";
import { aVolume } from "../../../builders/facts.ts";
import { aPolicy, EXTEND_AT_80 } from "../../../builders/policy.ts";

const policy = aPolicy();
const ERROR = "extend-at-80: no such key: tier";

function watched() {
  let changes = 0;
  const errors = createRuleErrors(() => {
    changes += 1;
  });
  const note = (volume: string, error: string | undefined, of: CompiledPolicy | undefined = policy, isAsked = true) =>
    errors.note({ handle: `fs-${volume}`, claim: `shop/${volume}`, policy: of, error, isAsked });
  return { errors, note, changes: () => changes };
}

describe("the volumes on which rules fail", () => {
  it("are counted, with the one that has failed for longest as the example", () => {
    const { errors, note } = watched();
    expect(errors.of(policy.key)).toBeUndefined();
    note("b", ERROR);
    note("a", "another: error");
    note("b", ERROR);
    expect(errors.of(policy.key)).toEqual({ volumes: 2, example: "shop/b", error: ERROR });
  });

  it("are news when one begins, says another error or ends, and else not", () => {
    const { note, changes } = watched();
    note("a", undefined);
    expect(changes()).toBe(0);
    note("a", ERROR);
    note("a", ERROR);
    expect(changes()).toBe(1);
    note("a", "another: error");
    note("a", undefined);
    note("a", undefined);
    expect(changes()).toBe(3);
  });

  it("are forgotten when their rules answer again, or when they are gone", () => {
    const { errors, note } = watched();
    note("a", ERROR);
    note("b", ERROR);
    note("a", undefined);
    expect(errors.of(policy.key)).toEqual({ volumes: 1, example: "shop/b", error: ERROR });
    errors.forget("fs-b");
    expect(errors.of(policy.key)).toBeUndefined();
  });

  it("stay while a decision asks no rule, as during an operation", () => {
    const { errors, note } = watched();
    note("a", ERROR);
    note("a", undefined, policy, false);
    expect(errors.of(policy.key)?.volumes).toBe(1);
  });

  it.each<[string, CompiledPolicy | undefined]>([
    ["is suspended", { ...policy, suspended: true }],
    ["no longer compiles", { ...policy, problems: [{ field: "spec.rules", message: "no" }] }],
    ["no longer selects them", undefined],
    ["has given them to another", { ...policy, key: "shop/other" }],
  ])("are forgotten where their policy %s, although no rule is asked", (_why, now) => {
    const { errors, note } = watched();
    note("a", ERROR);
    errors.note({ handle: "fs-a", claim: "shop/a", policy: now, error: undefined, isAsked: false });
    expect(errors.of(policy.key)).toBeUndefined();
  });

  it("go over to the policy that decides them now", () => {
    const { errors, note } = watched();
    note("a", ERROR);
    note("a", ERROR, { ...policy, key: "shop/other" });
    expect(errors.of(policy.key)).toBeUndefined();
    expect(errors.of("shop/other")?.volumes).toBe(1);
  });
});

describe("a decision", () => {
  const onLabel = { ...EXTEND_AT_80, when: "volume.labels.tier2 == 'x' && volume.usedRatio > 0.5" };

  it("says which rule has failed, though another one extends", () => {
    const extending = aPolicy({ rules: [EXTEND_AT_80, { ...onLabel, name: "on-label" }] });
    const plan = decide(aVolume({ usedRatio: 0.85 }), extending, NO_CEILINGS);
    expect(plan).toMatchObject({ kind: "extend", ruleError: expect.stringContaining("on-label: ") });
  });

  it("says so of a size that cannot be evaluated, too", () => {
    const sized = {
      name: "sized",
      action: "Extend",
      when: "volume.usedRatio > 0.5",
      toExpression: "quantity(volume.labels.size)",
    } as const;
    const plan = decide(aVolume({ usedRatio: 0.85 }), aPolicy({ rules: [sized] }), NO_CEILINGS);
    expect(plan).toMatchObject({ reason: "RuleError", ruleError: expect.stringContaining("sized: ") });
  });

  it("says nothing of the kind where history is missing, or where every rule answers", () => {
    const facts = aVolume({ history: { maxUsedBytes: () => ({ missing: "an hour" }), mostSeenBytes: () => 0 } });
    expect(decide(facts, aPolicy(), NO_CEILINGS)).toMatchObject({ reason: "NotEnoughHistory" });
    expect(decide(facts, aPolicy(), NO_CEILINGS)).not.toHaveProperty("ruleError");
    expect(decide(aVolume(), aPolicy(), NO_CEILINGS)).not.toHaveProperty("ruleError");
  });
});
