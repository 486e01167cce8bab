// What a policy that works is warned of, and what it is not: each kind of warning both ways.
import { describe, expect, it } from "@jest/globals";
import type { PolicyRule, VolumePolicySpec } from "../../../../src/contracts/kinds/volume-policy.ts";
import { lintPolicy } from "../../../../src/policy-engine/lint/lint-policy.ts";
import { compilePolicy } from "../../../../src/policy-engine/policies/compile-policy.ts";
import { aVolumePolicy, EXTEND_AT_80, SHRINK_BELOW_30 } from "../../../builders/policy.ts";

const WARNING_CHARS = 160;

function warningsOf(spec: Partial<VolumePolicySpec>): readonly string[] {
  const policy = aVolumePolicy(spec);
  const compiled = compilePolicy(policy);
  expect(compiled.problems).toEqual([]);
  const warnings = lintPolicy(policy, compiled);
  for (const warning of warnings) expect(warning.length).toBeLessThanOrEqual(WARNING_CHARS);
  return warnings;
}

const extend = (when: string, rest: Partial<PolicyRule> = {}): PolicyRule => ({ ...EXTEND_AT_80, when, ...rest });
const shrink = (when: string, rest: Partial<PolicyRule> = {}): PolicyRule => ({ ...SHRINK_BELOW_30, when, ...rest });
const ofRules = (...rules: PolicyRule[]): readonly string[] => warningsOf({ rules });
const TIER = "has(volume.labels.tier) && volume.labels.tier == 'cache'";

it("a policy as the documentation has it is not warned of", () => {
  expect(warningsOf({})).toEqual([]);
});

describe("a target on the wrong side of its own threshold", () => {
  it.each([
    [
      "an Extend to its own threshold",
      extend("volume.usedRatio >= 0.8", { targetUsed: "80%" }),
      "not below its own 80%",
    ],
    ["an Extend to more than it", extend("volume.usedRatio > 0.8", { targetUsed: "90%" }), "not below its own 80%"],
    ["a threshold that stands on the left", extend("0.8 <= volume.usedRatio", { targetUsed: "90%" }), "its own 80%"],
    ["a negated comparison", extend("!(volume.usedRatio < 0.8)", { targetUsed: "90%" }), "its own 80%"],
    ["an Extend of some labels", extend(`volume.usedRatio > 0.8 && ${TIER}`, { targetUsed: "90%" }), "its own 80%"],
    [
      "one of two ways to hold",
      extend("volume.secondsToFull < 60.0 || volume.usedRatio > 0.8", { targetUsed: "90%" }),
      "holds again after each extend",
    ],
    [
      "a Shrink to less than its threshold",
      shrink("volume.usedRatioMax('24h') < 0.5", { targetUsed: "40%" }),
      "not above its own 50%: it holds again after each shrink",
    ],
  ])("is warned of: %s", (_sentence, rule, message) => {
    expect(ofRules(rule)).toEqual([expect.stringContaining(message)]);
  });

  it("is found through variables", () => {
    const variables = [
      { name: "mark", expression: "0.8" },
      { name: "isFull", expression: "volume.usedRatio >= variables.mark" },
    ];
    const rules = [extend("variables.isFull", { targetUsed: "85%" })];
    expect(warningsOf({ variables, rules })).toEqual([expect.stringContaining("not below its own 80%")]);
  });

  it.each([
    ["an Extend to less", extend("volume.usedRatio > 0.8", { targetUsed: "79%" })],
    ["a Shrink to its threshold, where it no longer holds", shrink("volume.usedRatio < 0.3", { targetUsed: "30%" })],
    [
      "a band that the target is past",
      extend("volume.usedRatio > 0.5 && volume.usedRatio < 0.6", { targetUsed: "70%" }),
    ],
    [
      "a condition that also looks at bytes",
      extend("volume.usedRatio > 0.5 && volume.availableBytes < quantity('1Gi')", { targetUsed: "60%" }),
    ],
    [
      "a condition that computes something of its fill",
      extend("volume.usedRatio > 0.5 && volume.availableBytes * 10 < volume.capacityBytes", { targetUsed: "60%" }),
    ],
    [
      "another size than targetUsed",
      { name: "grow", action: "Extend", when: "volume.usedRatio > 0.8", by: "25%" } as const,
    ],
  ])("is not seen in %s", (_sentence, rule) => {
    expect(ofRules(rule)).toEqual([]);
  });
});

describe("a Shrink to where an Extend rule holds", () => {
  it("is warned of", () => {
    expect(ofRules(EXTEND_AT_80, shrink("volume.usedRatioMax('24h') < 0.5", { targetUsed: "85%" }))).toEqual([
      "rule shrink-below-30: targetUsed 85% is not below the 80% of extend-at-80: it is held (WouldFlap)",
    ]);
  });

  it("is warned of where the Shrink alone is of some labels", () => {
    const some = shrink(`volume.usedRatio < 0.5 && ${TIER}`, { targetUsed: "85%" });
    expect(ofRules(EXTEND_AT_80, some)).toHaveLength(1);
  });

  it("is not seen where both are of some labels, which may be others", () => {
    const some = shrink(`volume.usedRatio < 0.5 && ${TIER}`, { targetUsed: "85%" });
    const other = extend(`volume.usedRatio >= 0.8 && !(${TIER})`);
    expect(ofRules(other, some)).toEqual([]);
  });
});

describe("a comparison that looks the wrong way", () => {
  it.each([
    [extend("volume.usedRatio <= 0.8"), "rule extend-at-80 extends while volume.usedRatio <= 0.8"],
    [
      extend("volume.availableBytes > quantity('10Gi')", { targetUsed: "50%" }),
      "extends while volume.availableBytes >",
    ],
    [extend("volume.secondsToFull > 600.0"), "extends while volume.secondsToFull > 600"],
    [
      extend("volume.usedRatio > 0.8 || volume.usedBytesMax('1h') < 5000000000"),
      "volume.usedBytesMax('1h') < 5000000000",
    ],
    [shrink("volume.usedRatio > 0.3"), "rule shrink-below-30 shrinks while volume.usedRatio > 0.3"],
  ])("is warned of: %j", (rule, message) => {
    expect(ofRules(rule)).toContainEqual(expect.stringContaining(message));
  });

  it.each([
    extend("volume.usedRatio > 0.6 && volume.usedRatio < 0.9", { targetUsed: "50%" }),
    extend("volume.usedRatio < 0.8 && volume.secondsToFull < 600.0"),
    extend("volume.usedRatio < 0.8 && volume.availableBytes * 10 < volume.capacityBytes"),
    extend("volume.capacityBytes < quantity('10Gi')"),
    extend("volume.ageSeconds < 600.0"),
    shrink("volume.availableBytes > quantity('10Gi')"),
  ])("is not seen in %j", (rule) => {
    expect(ofRules(rule)).toEqual([]);
  });
});

describe("bytes that are compared with a small number", () => {
  it("are warned of", () => {
    expect(ofRules(extend("volume.availableBytes < 10"))).toEqual([
      "rule extend-at-80: volume.availableBytes < 10 compares bytes: write a size as quantity('10Gi')",
    ]);
  });

  it.each(["volume.availableBytes < quantity('10Gi')", "volume.availableBytes < 10737418240", "volume.usedBytes > 0"])(
    "are not seen in %s",
    (when) => {
      expect(ofRules(extend(when))).toEqual([]);
    },
  );
});

describe("a label that is read without has()", () => {
  it.each([
    ["volume.usedRatio > 0.8 && volume.labels.tier == 'cache'", "volume.labels.tier"],
    ["volume.usedRatio > 0.8 && volume.labels['app.example/tier'] == 'cache'", "volume.labels.app.example/tier"],
    [
      "volume.usedRatio > 0.8 && volume.annotations.tier == 'cache' && has(volume.labels.tier)",
      "volume.annotations.tier",
    ],
  ])("is warned of: %s", (when, what) => {
    expect(ofRules(extend(when))).toEqual([expect.stringContaining(`reads ${what} without has(…)`)]);
  });

  it("is found in a size, and in a variable", () => {
    const variables = [{ name: "isCache", expression: "volume.labels.tier == 'cache'" }];
    expect(warningsOf({ variables, rules: [extend("volume.usedRatio > 0.8 && variables.isCache")] })).toHaveLength(1);
    const { targetUsed: _, ...rest } = extend("volume.usedRatio > 0.8");
    const toExpression = "volume.labels.tier == 'cache' ? 1000000000 : 2000000000";
    expect(ofRules({ ...rest, toExpression })).toHaveLength(1);
  });

  it.each([
    `volume.usedRatio > 0.8 && ${TIER}`,
    "volume.usedRatio > 0.8 && 'tier' in volume.labels && volume.labels['tier'] == 'cache'",
    "volume.usedRatio > 0.8 && volume.storageClassName == 'fast'",
  ])("is not seen in %s", (when) => {
    expect(ofRules(extend(when))).toEqual([]);
  });

  it("is not seen where a variable asks for it, nor where the selector does", () => {
    const rules = [extend("volume.usedRatio > 0.8 && volume.labels.tier == 'cache'")];
    expect(warningsOf({ rules, selector: { matchLabels: { tier: "cache" } } })).toEqual([]);
    expect(warningsOf({ rules, selector: { matchExpressions: [{ key: "tier", operator: "Exists" }] } })).toEqual([]);
    expect(
      warningsOf({ rules, selector: { matchExpressions: [{ key: "tier", operator: "DoesNotExist" }] } }),
    ).toHaveLength(1);
    const variables = [{ name: "isKnown", expression: "has(volume.labels.tier)" }];
    const guarded = extend("variables.isKnown && volume.labels.tier == 'cache' && volume.usedRatio > 0.8");
    expect(warningsOf({ variables, rules: [guarded] })).toEqual([]);
  });
});

describe("a time that is short", () => {
  it("is warned of where `for` ends before the next sample", () => {
    expect(ofRules(extend("volume.usedRatio > 0.8", { for: "500ms" }))).toEqual([
      "rule extend-at-80: for 500ms is shorter than the 1s between two samples",
    ]);
    for (const long of ["0s", "1s", "5m"]) expect(ofRules(extend("volume.usedRatio > 0.8", { for: long }))).toEqual([]);
  });

  it("is warned of where a Shrink is stabilized for less than the default", () => {
    expect(warningsOf({ behavior: { shrink: { stabilization: "1h" } } })).toEqual([
      "behavior.shrink.stabilization: 1h is shorter than the default 1d: peaks before that do not stop a shrink",
    ]);
    for (const stabilization of ["24h", "7d"])
      expect(warningsOf({ behavior: { shrink: { stabilization } } })).toEqual([]);
    expect(warningsOf({ behavior: { shrink: { stabilization: "1h" } }, rules: [EXTEND_AT_80] })).toEqual([]);
  });
});

describe("two Shrink rules of different sizes", () => {
  const at = (name: string, upTo: number, targetUsed: string): PolicyRule =>
    shrink(`volume.usedRatioMax('24h') < ${upTo}`, { name, targetUsed });

  it("are warned of where the larger size ends first: more use would shrink further", () => {
    expect(ofRules(at("gentle", 0.2, "25%"), at("hard", 0.3, "70%"))).toEqual([
      "rule gentle asks for a larger size than hard: over 20% more use shrinks further",
    ]);
  });

  it("are warned of where one never decides", () => {
    expect(ofRules(at("gentle", 0.3, "50%"), at("hard", 0.1, "70%"))).toEqual([
      "rule hard decides nothing: gentle holds with it, and asks for the larger size, which counts",
    ]);
  });

  it("are not warned of where they look at different things, or ask for the same", () => {
    expect(ofRules(at("one", 0.2, "50%"), at("other", 0.3, "50%"))).toEqual([]);
    const week = shrink("volume.usedRatioMax('7d') < 0.3", { name: "week", targetUsed: "70%" });
    expect(ofRules(at("day", 0.2, "50%"), week)).toEqual([]);
    const some = shrink(`volume.usedRatioMax('24h') < 0.3 && ${TIER}`, { name: "some", targetUsed: "70%" });
    expect(ofRules(at("day", 0.2, "50%"), some)).toEqual([]);
  });
});

describe("a condition that is too long to look at", () => {
  const pair = "(volume.usedRatio > 0.8 || volume.usedRatio > 0.9)";

  it("is not warned of", () => {
    const rule = extend(Array.from({ length: 7 }, () => pair).join(" && "), { targetUsed: "95%" });
    expect(ofRules(rule)).toEqual([]);
    expect(ofRules(extend(`${pair} && ${pair}`, { targetUsed: "95%" }))).toHaveLength(1);
  });

  it("takes no time, through whatever variables it reads", () => {
    const variables = Array.from({ length: 12 }, (_, i) => ({
      name: `v${i}`,
      expression: i === 0 ? pair : `variables.v${i - 1} && variables.v${i - 1}`,
    }));
    const sinceMs = performance.now();
    expect(warningsOf({ variables, rules: [extend("variables.v11", { targetUsed: "95%" })] })).toEqual([]);
    expect(performance.now() - sinceMs).toBeLessThan(5000);
  });
});
