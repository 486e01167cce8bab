// What is malformed in a policy is named with its place and its reason, and nothing else with it: no problem that is not one.
import { describe, expect, it } from "@jest/globals";
import { type AnyPolicy, compilePolicy } from "../../../../src/policy-engine/policies/compile-policy.ts";
import { aClusterPolicy, aVolumePolicy, EXTEND_AT_80 } from "../../../builders/policy.ts";

/** Of a shape that no type has: it comes from etcd, where an older or a missing schema let it in. */
type Malformed = Readonly<Record<string, unknown>>;

const rule = (more: Malformed): Malformed => ({ rules: [{ ...EXTEND_AT_80, ...more }] });
const sized = (size: Malformed): Malformed => ({
  rules: [{ name: "r", action: "Extend", when: EXTEND_AT_80.when, ...size }],
});
const when = (source: unknown): Malformed => rule({ when: source });
const pace = (direction: string, more: Malformed): Malformed => ({ behavior: { [direction]: more } });
const windowed = (more: Malformed): Malformed =>
  pace("extend", { windows: [{ cron: "0 2 * * *", duration: "1h", ...more }] });
const variables = (...pairs: [string, string][]): Malformed => ({
  variables: pairs.map(([name, expression]) => ({ name, expression })),
});

const SIZE = "write a size in bytes, such as 500Mi or 10Gi";
const DURATION = "write a duration in ms, s, m, h and d, such as 30s or 1h30m";
const PERCENT = "targetUsed must be at least 1% and less than 100%, such as 60%";
const AMOUNT = "write a percentage such as 25%, or a size in bytes such as 10Gi";
const WINDOW = "behavior.extend.windows[0]";

/** What is written, where the problem is (with line and column in an expression), and what is said of it. */
const CASES: readonly [string, Malformed, string, string][] = [
  ["a decimal unit with a B", { limits: { max: "10GB" } }, "limits.max", SIZE],
  ["a size with a space", { limits: { max: "10 Gi" } }, "limits.max", SIZE],
  ["a negative size", { limits: { max: "-1Gi" } }, "limits.max", SIZE],
  ["an empty size", { limits: { max: "" } }, "limits.max", SIZE],
  ["a size that is NaN", { limits: { max: "NaN" } }, "limits.max", SIZE],
  ["an exponent without a number", { limits: { max: "1e" } }, "limits.max", SIZE],
  ["a size that is a number", { limits: { max: 5 } }, "limits.max", "expected string, received number"],
  ["a bad minAvailable", { limits: { max: "10Gi", minAvailable: "2 GB" } }, "limits.minAvailable", SIZE],
  ["limits that are a text", { limits: "10Gi" }, "limits", "expected object, received string"],
  ["a ratio for a percentage", rule({ targetUsed: "0.6" }), "rules[0].targetUsed", PERCENT],
  ["a percentage without its sign", rule({ targetUsed: "60" }), "rules[0].targetUsed", PERCENT],
  ["a negative percentage", rule({ targetUsed: "-5%" }), "rules[0].targetUsed", PERCENT],
  ["a percentage that is a number", rule({ targetUsed: 0.6 }), "rules[0].targetUsed", "received number"],
  ["a negative step", sized({ by: "-10%" }), "rules[0].by", AMOUNT],
  ["a step in words", sized({ by: "ten" }), "rules[0].by", AMOUNT],
  ["a step of nothing", sized({ by: "0%" }), "rules[0].by", '"0%" is out of range'],
  ["a size of nothing", sized({ to: "0" }), "rules[0].to", '"0" is not a size'],
  ["a size in another unit", sized({ to: "5TB" }), "rules[0].to", SIZE],
  ["a time that is a number", rule({ for: 60 }), "rules[0].for", "received number"],
  ["a time in words", rule({ for: "soon" }), "rules[0].for", DURATION],
  ["a time whose end has no unit", rule({ for: "1d2" }), "rules[0].for", DURATION],
  ["a negative time", rule({ for: "-1h" }), "rules[0].for", DURATION],
  ["an action that there is not", rule({ action: "Grow" }), "rules[0].action", 'one of "Extend"|"Shrink"'],
  ["a rule's name with spaces", rule({ name: "Extend At 80" }), "rules[0].name", "such as extend-at-80"],
  ["rules that are a text", { rules: "none" }, "rules", "expected array, received string"],
  ["no condition", when(undefined), "rules[0].when", "expected string, received undefined"],
  ["an empty condition", when(""), "rules[0].when", "expected string to have >=1 characters"],
  ["a condition that is too long", when("volume.usedRatio > 0.8".padEnd(5000)), "rules[0].when", "<=4096 characters"],
  ["an open parenthesis", when("volume.usedRatio >= (0.8"), "rules[0].when:1:25", "got end of the expression"],
  ["a problem on a second line", when("volume.usedRatio >\n  = 0.8"), "rules[0].when:2:3", "="],
  ["one = for two", when("volume.usedRatio = 0.8"), "rules[0].when:1:18", "unexpected character: ="],
  ["a window that is too long", when("volume.usedRatioMax('30d') > 0.8"), "rules[0].when:1:21", "30d is out of range"],
  ["a condition that is constant", when("true"), "rules[0].when:1:1", "the rule is true for every volume"],
  ["a pattern that is none", when("volume.name.matches('(')"), "rules[0].when:1:21", "missing closing )"],
  [
    "a zone that is none",
    when("now.getHours('Mars/Base') > 3"),
    "rules[0].when:1:14",
    '"Mars/Base" is not a time zone',
  ],
  ["a variable's name with a dash", variables(["a-b", "1"]), "variables[0].name", "letters, digits and _"],
  ["two variables of a name", variables(["a", "1"], ["a", "2"]), "variables[1].expression:1:1", "already a variable a"],
  [
    "a variable before its value",
    variables(["a", "variables.b"], ["b", "2"]),
    "variables[0].expression:1:11",
    "there is no variable b before this",
  ],
  ["a mode that there is not", { mode: { shrink: "Maybe" } }, "mode.shrink", 'one of "Enforce"|"Approve"|"Recommend"'],
  ["a way with stale data", { onStaleMetrics: "Shrink" }, "onStaleMetrics", 'one of "Hold"|"ExtendOnly"'],
  ["a priority in words", { priority: "high" }, "priority", "expected number, received string"],
  ["a fraction of a priority", { priority: 1.5 }, "priority", "expected int"],
  ["a text for a bool", { suspend: "no" }, "suspend", "expected boolean, received string"],
  ["a selector that is a text", { selector: "tier=cache" }, "selector", "expected object, received string"],
  [
    "an operator of selectors that there is not",
    { selector: { matchExpressions: [{ key: "a", operator: "Like" }] } },
    "selector.matchExpressions[0].operator",
    '"In"|"NotIn"',
  ],
  ["classes that are a text", { storageClassNames: "fast" }, "storageClassNames", "expected array, received string"],
  ["a cooldown with a space", pace("extend", { cooldown: "1 h" }), "behavior.extend.cooldown", DURATION],
  ["a negative cooldown", pace("shrink", { cooldown: "-1h" }), "behavior.shrink.cooldown", DURATION],
  ["a peak of a month", pace("shrink", { stabilization: "30d" }), "behavior.shrink.stabilization", '"30d" is longer'],
  ["a fraction of a change", pace("extend", { maxPerDay: 1.5 }), "behavior.extend.maxPerDay", "expected int"],
  ["a minStep of nothing", pace("extend", { minStep: "0" }), "behavior.extend.minStep", '"0" is not a size'],
  ["a maxStep in words", pace("shrink", { maxStep: "big" }), "behavior.shrink.maxStep", SIZE],
  ["four cron fields", windowed({ cron: "0 2 * *" }), `${WINDOW}.cron`, ">=9 characters"],
  ["a cron field of another tool", windowed({ cron: "0 2 ? * *" }), WINDOW, '"0 2 ? * *" is not five cron fields'],
  [
    "an hour that no day has",
    windowed({ cron: "0 25 * * *" }),
    WINDOW,
    "not a cron pattern: Invalid value for hour: 25",
  ],
  ["a day that no week has", windowed({ cron: "0 2 * * funday" }), WINDOW, "not a cron pattern: configuration entry 5"],
  ["a window without a duration", windowed({ duration: undefined }), `${WINDOW}.duration`, "received undefined"],
  ["a duration in words", windowed({ duration: "3 hours" }), `${WINDOW}.duration`, DURATION],
  ["a zone by its offset", windowed({ timeZone: "CEST+1" }), WINDOW, '"CEST+1" is not a time zone'],
  ["an empty zone", windowed({ timeZone: "" }), WINDOW, '"" is not a time zone'],
  ["trims each second", { trim: { every: "1s" } }, "trim.every", "such as 24h or 1h30m"],
  ["ordinary claims by another word", { claimBackend: "Yes" }, "claimBackend", '"Disabled"|"Enabled"'],
];

const OF_CLUSTER: readonly [string, Malformed, string, string][] = [
  ["a ceiling in words", { ceilings: { max: "lots" } }, "ceilings.max", SIZE],
  ["a negative budget", { ceilings: { bytesPerNamespace: "-1" } }, "ceilings.bytesPerNamespace", SIZE],
  ["a selector of namespaces that is a text", { namespaceSelector: "x" }, "namespaceSelector", "expected object"],
];

function problemsOf(policy: AnyPolicy, spec: Malformed): [string, string][] {
  const { problems, rules } = compilePolicy({ ...policy, spec: { ...policy.spec, ...spec } } as AnyPolicy);
  expect(rules).toEqual([]);
  return problems.map(({ field, line, column, message }) => [
    field.replace(/^spec\./, "") + (line === undefined ? "" : `:${line}:${column}`),
    message,
  ]);
}

describe("a policy is refused for one thing, by its place, where it has", () => {
  it.each(CASES)("%s", (_what, spec, place, message) => {
    expect(problemsOf(aVolumePolicy(), spec)).toEqual([[place, expect.stringContaining(message)]]);
  });

  it.each(OF_CLUSTER)("%s", (_what, spec, place, message) => {
    expect(problemsOf(aClusterPolicy(), spec)).toEqual([[place, expect.stringContaining(message)]]);
  });
});
