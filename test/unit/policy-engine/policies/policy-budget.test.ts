import { describe, expect, it } from "@jest/globals";
import {
  expressionChars,
  namespaceRefusal,
  policyChars,
} from "../../../../src/policy-engine/policies/policy-budget.ts";
import { aPolicySpec, EXTEND_AT_80 } from "../../../builders/policy.ts";

const WINDOW = { cron: "0 2 * * *", duration: "1h" };

describe("what a policy takes of its namespace's budget", () => {
  it("is the characters of all its expressions", () => {
    const rule = { ...EXTEND_AT_80, when: "w".repeat(1000), toExpression: "t".repeat(100), messageExpression: "m" };
    const variables = [{ name: "long-names-do-not-count", expression: "v".repeat(10) }];
    expect(expressionChars({ rules: [rule, { ...EXTEND_AT_80, when: "w" }], variables })).toBe(1112);
    expect(policyChars({ rules: [rule, { ...EXTEND_AT_80, when: "w" }], variables })).toBe(1112);
  });

  it("is 1,024 at least: a thousand small policies are not free", () => {
    expect(policyChars(aPolicySpec())).toBe(1024);
    expect(policyChars({})).toBe(1024);
  });

  it("is 512 more for each maintenance window of either direction", () => {
    const behavior = { extend: { windows: [WINDOW, WINDOW] }, shrink: { windows: [WINDOW] } };
    expect(policyChars({ ...aPolicySpec({ rules: [{ ...EXTEND_AT_80, when: "w".repeat(1000) }] }), behavior })).toBe(
      2536,
    );
  });
});

describe("a namespace's budget", () => {
  it.each([
    ["is kept by policies of just as many characters", { chars: 524_288, ranges: 0 }],
    ["is kept by patterns of just as many ranges", { chars: 1024, ranges: 100_000 }],
  ])("%s", (_sentence, size) => {
    expect(namespaceRefusal("team", "last", size)).toBeUndefined();
  });

  it("names the policy that goes over it, the figure and the limit", () => {
    expect(namespaceRefusal("team", "last", { chars: 525_312, ranges: 0 })).toMatchObject({
      field: "spec.rules",
      message:
        "the policies of namespace team up to last have 525312 characters of expressions, over the limit of 524288: it and all newer ones are refused",
    });
    expect(namespaceRefusal("team", "last", { chars: 1024, ranges: 100_001 })).toMatchObject({
      field: "spec.rules",
      message:
        "the policies of namespace team up to last have patterns with 100001 ranges of characters, over the limit of 100000: it and all newer ones are refused",
    });
  });
});
