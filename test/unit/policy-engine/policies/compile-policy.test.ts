import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import type { PolicyRule, VolumePolicy, VolumePolicySpec } from "../../../../src/contracts/kinds/volume-policy.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { compilePolicy } from "../../../../src/policy-engine/policies/compile-policy.ts";
import { aClusterPolicy, aPolicy, aVolumePolicy, EXTEND_AT_80, SHRINK_BELOW_30 } from "../../../builders/policy.ts";
import { property } from "../../../harness/property.ts";

const rule = (more: Partial<PolicyRule>): Partial<VolumePolicySpec> => ({ rules: [{ ...EXTEND_AT_80, ...more }] });
const shrinkWindow = (cron: string, more: object = {}): Partial<VolumePolicySpec> => ({
  behavior: { shrink: { windows: [{ cron, duration: "1h", ...more }] } },
});

/** Generous: hundreds of policies are compiled on a machine that does other things, too. */

interface Refused {
  spec: Partial<VolumePolicySpec>;
  field: string;
  message: RegExp;
}

const refused: Record<string, Refused> = {
  "a rule that compares a ratio with a percentage": {
    spec: rule({ when: "volume.usedRatio >= 80" }),
    field: "spec.rules[0].when",
    message: /./,
  },
  "a rule of the wrong type": {
    spec: rule({ when: "volume.usedBytes" }),
    field: "spec.rules[0].when",
    message: /bool/,
  },
  "a field that volumes do not have": {
    spec: rule({ when: "volume.usedRation >= 0.8" }),
    field: "spec.rules[0].when",
    message: /usedRation/,
  },
  "a message that is not a text": {
    spec: rule({ messageExpression: "volume.usedBytes" }),
    field: "spec.rules[0].messageExpression",
    message: /string/,
  },
  "a size expression that is no size": {
    spec: rule({ targetUsed: undefined, toExpression: "'10Gi'" }),
    field: "spec.rules[0].toExpression",
    message: /size/,
  },
  "a broken variable, by its index": {
    spec: {
      variables: [
        { name: "ok", expression: "1" },
        { name: "peak", expression: "volume.usedRatioMax(" },
      ],
    },
    field: "spec.variables[1].expression",
    message: /./,
  },
  "two sizes in one rule": {
    spec: rule({ by: "10%" }),
    field: "spec.rules[0]",
    message: /exactly one .* there is targetUsed and by/,
  },
  "a rule without a size": { spec: rule({ targetUsed: undefined }), field: "spec.rules[0]", message: /there is none/ },
  "targetUsed of nothing": {
    spec: rule({ targetUsed: "0%" }),
    field: "spec.rules[0].targetUsed",
    message: /out of range/,
  },
  "targetUsed of everything": {
    spec: rule({ targetUsed: "100%" }),
    field: "spec.rules[0].targetUsed",
    message: /out of range/,
  },
  "a shrink by everything": {
    spec: { rules: [{ name: "s", action: "Shrink", when: "volume.usedRatio < 0.1", by: "100%" }] },
    field: "spec.rules[0].by",
    message: /out of range/,
  },
  "an extend by nothing": {
    spec: rule({ targetUsed: undefined, by: "0Gi" }),
    field: "spec.rules[0].by",
    message: /not a size/,
  },
  "two rules of one name": {
    spec: { rules: [EXTEND_AT_80, EXTEND_AT_80] },
    field: "spec.rules[1].name",
    message: /already a rule extend-at-80/,
  },
  "an extending policy without a max": {
    spec: { limits: { min: "1Gi" } },
    field: "spec.limits.max",
    message: /max is required/,
  },
  "a max under the min": {
    spec: { limits: { min: "5Gi", max: "1Gi" } },
    field: "spec.limits.max",
    message: /smaller than min \(5Gi\)/,
  },
  "a min of 0": { spec: { limits: { min: "0", max: "1Gi" } }, field: "spec.limits.min", message: /not a size/ },
  "a size that is too large to count": {
    spec: { limits: { max: "9000000Ti" } },
    field: "spec.limits.max",
    message: /8Pi/,
  },
  "a size that is not a quantity": { spec: { limits: { max: "lots" } }, field: "spec.limits.max", message: /./ },
  "minAvailable as large as max": {
    spec: { limits: { max: "5Gi", minAvailable: "5Gi" } },
    field: "spec.limits.minAvailable",
    message: /leaves nothing/,
  },
  "a maxStep under the minStep": {
    spec: { behavior: { extend: { minStep: "2Gi", maxStep: "1Gi" } } },
    field: "spec.behavior.extend.maxStep",
    message: /smaller than minStep \(2Gi\)/,
  },
  "no changes a day": {
    spec: { behavior: { shrink: { maxPerDay: 0 } } },
    field: "spec.behavior.shrink.maxPerDay",
    message: /./,
  },
  "a duration that is none": {
    spec: { behavior: { shrink: { cooldown: "soon" } } },
    field: "spec.behavior.shrink.cooldown",
    message: /./,
  },
  "a cron pattern with seconds": {
    spec: shrinkWindow("0 0 2 * * *"),
    field: "spec.behavior.shrink.windows[0]",
    message: /five cron fields/,
  },
  "a cron nickname": {
    spec: shrinkWindow("@monthly 1"),
    field: "spec.behavior.shrink.windows[0]",
    message: /five cron fields/,
  },
  "a minute that no hour has": {
    spec: shrinkWindow("61 2 * * *"),
    field: "spec.behavior.shrink.windows[0]",
    message: /not a cron pattern/,
  },
  "a window on a day that never comes": {
    spec: shrinkWindow("0 2 30 2 *"),
    field: "spec.behavior.shrink.windows[0]",
    message: /never opens/,
  },
  "a window that is never open": {
    spec: shrinkWindow("0 2 * * *", { duration: "0s" }),
    field: "spec.behavior.shrink.windows[0].duration",
    message: /never opens/,
  },
  "a time zone that does not exist": {
    spec: shrinkWindow("0 2 * * *", { timeZone: "Europe/Atlantis" }),
    field: "spec.behavior.shrink.windows[0]",
    message: /Europe\/Atlantis/,
  },
};

describe("compilePolicy", () => {
  it.each(Object.entries(refused))("refuses %s", (_sentence, { spec, field, message }) => {
    const { problems, rules } = aPolicy(spec);
    expect(problems).toContainEqual(expect.objectContaining({ field, message: expect.stringMatching(message) }));
    expect(rules).toEqual([]);
  });

  it("says where in an expression the problem is, and what to write instead", () => {
    const [problem] = aPolicy(rule({ when: "volume.usedRatio >= 80" })).problems;
    expect(problem).toMatchObject({ line: 1, column: expect.any(Number), hint: expect.stringMatching(/0\.8/) });
  });

  it("finds all problems at once", () => {
    const { problems } = aPolicy({
      limits: { min: "5Gi", max: "1Gi" },
      rules: [{ ...EXTEND_AT_80, when: "nonsense(" }, SHRINK_BELOW_30],
    });
    expect(problems.map(({ field }) => field).sort()).toEqual(["spec.limits.max", "spec.rules[0].when"]);
  });

  const matching = (pattern: string) => `volume.name.matches(r'${pattern}')`;
  const named = (expressions: readonly string[]) => expressions.map((expression, i) => ({ name: `v${i}`, expression }));

  it("refuses patterns whose classes hold too much for one policy, in whichever of its expressions they stand", () => {
    const { problems, rules } = aPolicy({
      variables: named(["\\pL{6}", "\\pN{6}"].map(matching)),
      rules: [EXTEND_AT_80, { ...SHRINK_BELOW_30, when: matching("\\pS{2}") }],
    });
    expect(problems).toEqual([
      expect.objectContaining({
        field: "spec.rules[1].when",
        message: "the patterns of this policy hold up to 10500 ranges of characters, over the limit of 10000",
        hint: "repeat less: x{900} holds 900 of them, and each \\pL holds 750",
      }),
    ]);
    expect(rules).toEqual([]);
  });

  it("counts a pattern once that many expressions share", () => {
    const policy = aPolicy({ variables: named(Array.from({ length: 32 }, () => matching("\\pL{6}"))) });
    expect(policy).toMatchObject({ problems: [], size: { ranges: 4500 } });
  });

  it("compiles none of the expressions of a policy that has too many characters of them", () => {
    const broken = `volume.nope > '${"x".repeat(2000)}'`;
    const { problems } = aPolicy({ variables: named(Array.from({ length: 17 }, () => broken)) });
    expect(problems).toEqual([
      {
        field: "spec.rules",
        message: "the expressions of this policy have 34327 characters, over the limit of 32768 for all together",
        hint: "share what is repeated in variables, or write two policies",
      },
    ]);
  });

  it("reads windows up to the first that never opens", () => {
    const windows = ["0 2 * * *", "0 0 30 2 *", "0 0 31 2 *"].map((cron) => ({ cron, duration: "1h" }));
    const { problems } = aPolicy({ behavior: { shrink: { windows } } });
    expect(problems.map(({ field }) => field)).toEqual(["spec.behavior.shrink.windows[1]"]);
  });

  it("fills in the defaults", () => {
    const policy = aPolicy({ mode: undefined });
    expect(policy).toMatchObject({
      problems: [],
      suspended: false,
      mode: { extend: "Enforce", shrink: "Recommend" },
      extend: { cooldownMs: 0, minStepBytes: GIB, maxStepBytes: 100 * GIB, maxPerDay: undefined, windows: [] },
      shrink: { cooldownMs: 6 * 3_600_000, minStepBytes: GIB, maxStepBytes: 100 * GIB },
      onStaleMetrics: "ExtendOnly",
    });
  });

  it("knows the longest window of each rule, those of its variables included", () => {
    const policy = aPolicy({
      variables: [{ name: "peak", expression: "volume.usedRatioMax('6h')" }],
      rules: [EXTEND_AT_80, { ...SHRINK_BELOW_30, when: "variables.peak < 0.3 && volume.usedRatioMax('1h') < 0.2" }],
    });
    expect(policy.rules.map(({ windowMs }) => windowMs)).toEqual([0, 6 * 3_600_000]);
  });

  it("accepts an extend whose targetUsed is above the threshold of its rule", () => {
    expect(aPolicy(rule({ when: "volume.usedRatio >= 0.5", targetUsed: "90%" })).problems).toEqual([]);
  });

  it("keeps the readable limits of a policy that does not even have the right shape", () => {
    // eslint-disable-next-line no-restricted-syntax -- a spec of a wrong shape is the case
    const broken = { limits: { max: "50Gi", minAvailable: "1Gi" }, rules: "none" } as unknown as VolumePolicySpec;
    const policy = compilePolicy({ ...aVolumePolicy(), spec: broken });
    expect(policy.problems[0]?.field).toBe("spec.rules");
    expect(policy).toMatchObject({ guardsMinAvailable: true, limits: { maxBytes: 50 * GIB, minAvailableBytes: GIB } });
  });

  it("guards nothing under a policy whose mode cannot be read", () => {
    // eslint-disable-next-line no-restricted-syntax -- a spec of a wrong shape is the case
    const broken = { limits: { max: "50Gi" }, mode: "Recommend", rules: [EXTEND_AT_80] } as unknown as VolumePolicySpec;
    expect(compilePolicy({ ...aVolumePolicy(), spec: broken }).guardsMinAvailable).toBe(false);
  });

  it("takes a cluster policy without rules for valid", () => {
    const policy = compilePolicy(aClusterPolicy({ rules: undefined, limits: undefined, ceilings: { max: "1Ti" } }));
    expect(policy).toMatchObject({ key: "cluster", scope: "Cluster", problems: [], rules: [] });
  });

  const anything = fc.object({
    key: fc.constantFrom("limits", "rules", "behavior", "when", "mode", "max", "windows", "selector"),
    maxDepth: 4,
  });
  property(
    "never throws, whatever somebody writes for a specification",
    { runs: 500, reaches: { "a problem": 0.5 } },
    [fc.oneof(anything, fc.anything())],
    (reach, spec) => {
      const policy = compilePolicy({ ...aVolumePolicy(), spec: spec as VolumePolicySpec } satisfies VolumePolicy);
      if (policy.problems.length > 0) reach("a problem");
      expect(policy.rules.length === 0 || policy.problems.length === 0).toBe(true);
    },
  );

  property(
    "never throws, whatever somebody writes for an expression, a duration or a time",
    { runs: 500, reaches: { "a problem": 0.9 } },
    [fc.string()],
    (reach, text) => {
      const ofRule = compilePolicy(aVolumePolicy(rule({ when: text, for: text, targetUsed: text })));
      const ofWindow = compilePolicy(aVolumePolicy(shrinkWindow(text, { timeZone: text, duration: text })));
      if (ofRule.problems.length > 0 && ofWindow.problems.length > 0) reach("a problem");
    },
  );
});
