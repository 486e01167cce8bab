// What a policy's author reads in its status.
import { describe, expect, it } from "@jest/globals";
import { MESSAGE_CHARACTERS } from "../../../../src/contracts/printable.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { type AnyPolicy, compilePolicy } from "../../../../src/policy-engine/policies/compile-policy.ts";
import { policyStatus, saysTheSame } from "../../../../src/policy-engine/report/policy-status.ts";
import { type PolicyUse, unused } from "../../../../src/policy-engine/report/policy-uses.ts";
import type { FailingRules } from "../../../../src/policy-engine/report/rule-errors.ts";
import { NOW_MS } from "../../../builders/facts.ts";
import { aClusterPolicy, aVolumePolicy } from "../../../builders/policy.ts";

function statusOf(use: Partial<PolicyUse>, failing?: FailingRules, object: AnyPolicy = aVolumePolicy()) {
  return policyStatus(object, compilePolicy(object), { use: { ...unused(), ...use }, failing }, NOW_MS);
}
const conditionsOf = (...args: Parameters<typeof statusOf>) =>
  Object.fromEntries(
    (statusOf(...args).conditions ?? []).map(({ type, status, reason, message }) => [
      type,
      { status, reason, message },
    ]),
  );

describe("a policy's status", () => {
  it("is Ready and nothing else where nothing stands in its way", () => {
    expect(conditionsOf({})).toEqual({
      Ready: { status: "True", reason: "Compiled", message: "all expressions compile" },
      Stalled: { status: "False", reason: "Compiled", message: "all expressions compile" },
    });
  });

  it("is not Ready where an older policy of its priority decides claims that it selects", () => {
    const lostTo = new Map([
      ["shop/old", 3],
      ["shop/older", 4],
    ]);
    const message =
      "set spec.priority, or narrow a selector: shop/older (and 1 more) of the same priority decides 7 claims that it selects, as the oldest";
    expect(conditionsOf({ lostTo, conflicts: new Set(lostTo.keys()) })).toEqual({
      Ready: { status: "False", reason: "Conflict", message },
      Stalled: { status: "True", reason: "Conflict", message },
      Conflict: {
        status: "True",
        reason: "Conflict",
        message: "same scope and priority as shop/old, shop/older: the oldest decides",
      },
    });
  });

  it("is Ready with the condition Conflict where it is the oldest and decides", () => {
    expect(conditionsOf({ conflicts: new Set(["shop/young"]) })).toMatchObject({
      Ready: { status: "True", reason: "Compiled" },
      Conflict: { status: "True" },
    });
  });

  it("says first that it does not compile", () => {
    const broken = aVolumePolicy({ limits: {} });
    expect(conditionsOf({ lostTo: new Map([["shop/old", 1]]) }, undefined, broken)).toMatchObject({
      Ready: { status: "False", reason: "CompileFailed" },
    });
  });

  it("names who decides all that it selects, and offers a priority where one helps", () => {
    const message =
      "raise spec.priority, or delete it: shop/a decides all 12 claims that it selects, so its rules decide nothing";
    expect(conditionsOf({ shadowedBy: new Map([["shop/a", 12]]) })["Shadowed"]).toEqual({
      ...{ status: "True", reason: "Shadowed", message },
    });
    expect(
      conditionsOf({ shadowedBy: new Map([["shop/a", 1]]) }, undefined, aClusterPolicy())["Shadowed"]?.message,
    ).toBe("shop/a decides all 1 claim that it selects, so its rules decide nothing");
  });

  it("says on how many volumes a rule fails, with one of them and the error", () => {
    const failing = { volumes: 3, example: "shop/data-0", error: "extend-at-80: no such key: tier" };
    expect(conditionsOf({}, failing)).toMatchObject({
      Ready: { status: "True" },
      RuleError: {
        status: "True",
        reason: "RuleError",
        message: "correct the rule, which fails on 3 volumes, such as shop/data-0: extend-at-80: no such key: tier",
      },
    });
  });

  it("counts the volumes that stop at 10 times their request", () => {
    const capped = { volumes: 2, example: "shop/b", bytes: 50 * GIB };
    expect(statusOf({ capped })).toMatchObject({ cappedByRequest: 2 });
    expect(conditionsOf({ capped })["Capped"]).toMatchObject({
      reason: "CappedByRequest",
      message: expect.stringMatching(
        /2 volumes of this policy stop at 10 × the request, under limits\.max, such as shop\/b \(at 50Gi\)$/,
      ),
    });
    expect(statusOf({})).not.toHaveProperty("cappedByRequest");
  });

  it("has short messages where names are long", () => {
    const long = "team-payments-prod-1/data-postgres-cluster-instance-0-replica";
    const use = {
      lostTo: new Map([
        [long, 1000],
        ["b", 1],
      ]),
      shadowedBy: new Map([
        [long, 1000],
        ["b", 1],
      ]),
      capped: { volumes: 1000, example: long, bytes: 50 * GIB },
    };
    const conditions = conditionsOf(use, { volumes: 1000, example: long, error: "e".repeat(500) });
    expect(Object.keys(conditions)).toEqual(["Ready", "Stalled", "Shadowed", "RuleError", "Capped"]);
    for (const { message } of Object.values(conditions)) expect(message.length).toBeLessThanOrEqual(MESSAGE_CHARACTERS);
  });

  it("says the same until one of its figures is another", () => {
    const before = statusOf({ withoutCeiling: 1 });
    expect(saysTheSame(before, statusOf({ withoutCeiling: 1 }))).toBe(true);
    expect(saysTheSame(before, statusOf({ withoutCeiling: 2 }))).toBe(false);
    const capped = { volumes: 1, example: "shop/b", bytes: GIB };
    expect(saysTheSame(statusOf({ capped }), statusOf({}))).toBe(false);
  });
});
