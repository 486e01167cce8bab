// Policies and their expressions: what is accepted is compiled, evaluates within its cost, and answers what it was compiled for.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { compileExpression, compileVariables, type Wanted } from "../../../src/policy-engine/cel/expression.ts";
import { createPatternCache, PolicyPatterns } from "../../../src/policy-engine/cel/functions/patterns.ts";
import { MAX_COST } from "../../../src/policy-engine/cel/limits.ts";
import { type AnyPolicy, compilePolicy, outlinePolicy } from "../../../src/policy-engine/policies/compile-policy.ts";
import { aScope } from "../../builders/cel-scope.ts";
import { aClusterPolicy, aVolumePolicy } from "../../builders/policy.ts";
import { jsonMutator, textMutator } from "../mutate.ts";
import { fixtures } from "../seeds.ts";
import { type FuzzTarget, pure, Refused } from "../target.ts";

const WORDS = [
  ...[
    "volume.usedRatio",
    "volume.usedBytes",
    "volume.labels",
    "volume.name",
    "node.freeBytes",
    "now",
    "math.greatest(",
    "quantity('",
  ],
  ...[
    "volume.usedRatioMax('24h')",
    " >= ",
    " && ",
    " || ",
    "!",
    "?",
    ":",
    "0.8",
    "1u",
    "r'",
    "b'",
    "'",
    "[",
    "]",
    "{",
    "}",
    "(",
    ")",
    ",",
  ],
  ...[
    ".all(x, ",
    ".exists(k, ",
    ".map(m, ",
    ".size()",
    ".matches('(a+)+$')",
    "duration('1h')",
    "timestamp('2026-01-01T00:00:00Z')",
  ],
  ...[
    "has(",
    "dyn(",
    "int(",
    "string(",
    "-9223372036854775808",
    "9223372036854775807",
    " % ",
    " in ",
    "variables.x",
    ".getHours()",
    "\\u0000",
  ],
];
const EXPRESSIONS = [
  "volume.usedRatio >= 0.8",
  "volume.usedRatioMax('24h') < 0.3 && node.freeBytes > quantity('10Gi')",
  "volume.labels.exists(k, k.startsWith('a')) || volume.name.matches('^o[a-z]+$')",
  "math.greatest(volume.usedBytes * 2, quantity('1Gi'))",
  "'used ' + percent(volume.usedRatio) + ' of ' + bytes(volume.capacityBytes)",
  "now.getHours('Europe/Berlin') < 6 ? volume.usedBytes / 3 : volume.capacityBytes",
];
const RESULT_TYPES: Readonly<Record<Wanted, string>> = { bool: "boolean", string: "string", size: "number" };
const SCOPES = [
  aScope(),
  aScope({ volume: { usedBytes: 0, usedRatio: 0, labels: {}, secondsToFull: Number.POSITIVE_INFINITY } }),
];

const cel: FuzzTarget = {
  name: "CEL",
  parsers: ["src/policy-engine/cel/parser.ts", "src/policy-engine/cel/functions/time.ts"],
  seeds: () => EXPRESSIONS,
  mutate: textMutator(WORDS),
  refusals: ["Refused"],
  start: () => {
    const compiled = compileVariables([], new PolicyPatterns(createPatternCache()));
    assert.ok(compiled.ok);
    const take = (input: Buffer): void => {
      const source = input.toString("utf8");
      const outcomes = (["bool", "string", "size"] as const).map((wanted) => {
        const outcome = compileExpression(source, wanted, compiled.variables);
        if (!outcome.ok) return outcome;
        const { evaluate, cost } = outcome.expression;
        assert.ok(cost <= MAX_COST, `it costs ${cost} steps`);
        for (const scope of SCOPES) {
          const found = evaluate(scope);
          if (found.ok) assert.equal(typeof found.value, RESULT_TYPES[wanted]);
          if (found.ok && wanted === "size") assert.ok(Number.isSafeInteger(found.value) && Number(found.value) >= 0);
          assert.deepEqual(evaluate(scope), found, "another answer the second time");
        }
        return outcome;
      });
      const problems = outcomes.map((outcome) => (outcome.ok ? [] : outcome.problems));
      for (const { start, end, line, column } of problems.flat())
        assert.ok(
          0 <= start && start <= end && end <= source.length && line >= 1 && column >= 1,
          "a problem is nowhere",
        );
      if (problems.every((each) => each.length > 0)) throw new Refused(problems[0]?.[0]?.message);
    };
    return { take };
  },
  cost: 4,
};

function policySeeds(): Buffer[] {
  const names = readdirSync("policies").filter((name) => !name.endsWith(".scenarios.yaml"));
  const ready: unknown[] = names.map((name) => parse(readFileSync(join("policies", name), "utf8")) as unknown);
  const windows = [{ cron: "0 2 * * *", duration: "3h", timeZone: "Europe/Berlin" }];
  const built = [aVolumePolicy(), aClusterPolicy({ behavior: { shrink: { windows } }, trim: { every: "24h" } })];
  return [...ready, ...built].map((policy) => Buffer.from(JSON.stringify(policy)));
}

const policies: FuzzTarget = {
  name: "policies",
  parsers: ["src/policy-engine/policies/compile-policy.ts", "src/policy-engine/policies/field-reader.ts"],
  seeds: () => [...policySeeds(), ...fixtures("api").filter((text) => text.includes("VolumePolicy"))],
  mutate: jsonMutator([
    ...[
      "Extend",
      "Shrink",
      "Enforce",
      "10Gi",
      "0",
      "150%",
      "1h",
      "24h",
      "ClusterVolumePolicy",
      "VolumePolicy",
      "rules",
      "when",
      "by",
    ],
    ...[
      "limits",
      "max",
      "min",
      "minAvailable",
      "variables",
      "expression",
      "name",
      "for",
      "toExpression",
      ...EXPRESSIONS,
    ],
  ]),
  refusals: ["Refused", "SyntaxError"],
  start: pure((input) => {
    const policy = JSON.parse(input.toString("utf8")) as AnyPolicy | null;
    // Without these the API server has no object at all.
    if (typeof policy?.metadata?.name !== "string") throw new Refused("no object");
    if (!["VolumePolicy", "ClusterVolumePolicy"].includes(policy.kind)) throw new Refused("another kind");
    const outline = outlinePolicy(policy);
    const { problems, rules, limits, trimEvery, size } = compilePolicy(policy);
    if (problems.length > 0) {
      assert.equal(rules.length, 0, "a policy with problems has rules");
      throw new Refused(problems.map(({ field, message }) => `${field}: ${message}`).join());
    }
    assert.deepEqual(outline.limits, limits);
    assert.equal(rules.length, policy.spec.rules?.length ?? 0);
    const isExtending = policy.spec.rules?.some(({ action }) => action === "Extend") === true;
    assert.ok(!isExtending || limits.maxBytes !== undefined, "it extends without a bound");
    for (const bytes of Object.values(limits))
      assert.ok(bytes === undefined || (Number.isSafeInteger(bytes) && bytes > 0));
    assert.ok((limits.minBytes ?? 0) <= (limits.maxBytes ?? Number.POSITIVE_INFINITY));
    assert.ok(trimEvery === undefined || /^[\d.a-z]+$/.test(trimEvery));
    assert.ok(Number.isSafeInteger(size.chars) && Number.isSafeInteger(size.ranges));
  }),
  cost: 6,
};

export const POLICY_TARGETS: readonly FuzzTarget[] = [cel, policies];
