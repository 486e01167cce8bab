// What users write in policies, and what it says about a volume.
import { describe, expect, it } from "@jest/globals";
import { compileExpression } from "../../../../src/policy-engine/cel/expression.ts";
import { aScope } from "../../../builders/cel-scope.ts";
import { problemIn, rule, variablesOf } from "./compiled.ts";

const GIB = 1024 ** 3;

describe("a rule", () => {
  it.each([
    ["volume.usedRatio >= 0.8 || volume.secondsToFull < 300.0", { usedRatio: 0.8 }, true],
    ["volume.usedRatio >= 0.8 || volume.secondsToFull < 300.0", { secondsToFull: 299.9 }, true],
    ["volume.usedRatio >= 0.8 || volume.secondsToFull < 300.0", { secondsToFull: Infinity }, false],
    ["volume.inodesUsedRatio >= 0.9", { inodesUsedRatio: 0.91 }, true],
    ["volume.inodesTotal == 0", { inodesTotal: 0 }, true],
    ["volume.labels['tier'] == 'cache'", {}, true],
    ["volume.labels.tier in ['cache', 'tmp']", {}, true],
    ["'tier' in volume.labels && !('team' in volume.labels)", {}, true],
    ["has(volume.labels.team) || has(volume.labels.tier)", {}, true],
    ["volume.labels.exists(key, key.startsWith('ti') && volume.labels[key] == 'cache')", {}, true],
    ["volume.labels.filter(key, key != 'tier').size() == 0", {}, true],
    ["volume.labels.map(key, key == 'tier', volume.labels[key] + '!')[0] == 'cache!'", {}, true],
    ["volume.usedBytes * 1.5 > volume.capacityBytes", { usedBytes: 11 * GIB }, true],
    ["volume.usedBytes + quantity('8Gi') >= volume.capacityBytes", {}, true],
    ["volume.usedRatio > {'cache': 0.4, 'db': 0.7}[volume.labels.tier]", {}, true],
    ["math.greatest(volume.usedRatio, volume.inodesUsedRatio) >= 0.5", {}, true],
    ["math.least(volume.availableBytes, quantity('1Gi'), 3) == 3", {}, true],
    ["volume.usedRatio + volume.inodesUsedRatio < 1.5 && -volume.usedRatio > -0.6", {}, true],
    ["volume.growthBytesPerSecond < 0", { growthBytesPerSecond: -5 }, true],
    ["node.freeBytes > quantity('10Gi') && node.ioUtilizationRatio < 0.9", {}, true],
    ["now.getDayOfWeek() == 6 && now.getHours('Europe/Berlin') == 13", {}, true],
    ["now - timestamp('2026-01-31T00:00:00Z') > duration('12h')", {}, true],
    ["volume.fsType == 'xfs' ? volume.usedRatio > 0.9 : volume.usedRatio > 0.4", {}, true],
    ["volume.name.matches('^ord') && volume.namespace.size() == 4", {}, true],
  ])("%s with %j is %s", (source, volume, expected) => {
    expect(rule(source).evaluate(aScope({ volume }))).toEqual({ ok: true, value: expected });
  });

  it("says which facts and windows it reads, those of its variables included", () => {
    const variables = [
      { name: "peak", expression: "volume.usedRatioMax('24h')" },
      { name: "calm", expression: "variables.peak < 0.3 && volume.usedBytesMax('1h') < quantity('1Gi')" },
    ];
    const compiled = rule("variables.calm && volume.backend == 'lvm' && volume.usedRatioMax('24h') < 0.2", variables);
    expect(new Set(compiled.reads)).toEqual(new Set(["volume.backend", "volume.usedRatioMax", "volume.usedBytesMax"]));
    expect(compiled.windows).toHaveLength(2);
    expect(compiled.windows).toEqual(
      expect.arrayContaining([
        { function: "usedRatioMax", windowMs: 86_400_000 },
        { function: "usedBytesMax", windowMs: 3_600_000 },
      ]),
    );
  });

  it("divides the peak of a window by the present capacity", () => {
    const asked: number[] = [];
    const usedBytesMax = (windowMs: number) => {
      asked.push(windowMs);
      return 4 * GIB;
    };
    const scope = aScope({ volume: { capacityBytes: 8 * GIB }, usedBytesMax });
    expect(rule("volume.usedRatioMax('7d') == 0.5").evaluate(scope)).toEqual({ ok: true, value: true });
    expect(asked).toEqual([7 * 86_400_000]);
  });
});

describe("a value that is not there", () => {
  it("is missing history when a window has gaps", () => {
    const scope = aScope({ usedBytesMax: () => ({ missing: "2 h of 24 h were not sampled" }) });
    expect(rule("volume.usedRatioMax('24h') < 0.3").evaluate(scope)).toEqual({
      ok: false,
      kind: "NotEnoughHistory",
      message: "2 h of 24 h were not sampled",
    });
  });

  it.each([
    ["volume.usedRatio < 0.9", { usedRatio: undefined }, "StaleMetrics"],
    ["!(volume.usedRatio >= 0.9)", { usedRatio: Number.NaN }, "MetricsInconsistent"],
    ["volume.usedBytes < 5", { usedBytes: -1 }, "MetricsInconsistent"],
    ["volume.usedBytes < 5", { usedBytes: 0.5 }, "MetricsInconsistent"],
    ["volume.growthBytesPerSecond < 5.0", { growthBytesPerSecond: Infinity }, "MetricsInconsistent"],
    ["volume.usedRatioMax('1h') < 0.5", { capacityBytes: 0 }, "MetricsInconsistent"],
    ["volume.labels.team == 'a'", {}, "RuleError"],
    ["volume.usedBytes % (size(volume.name) - 6) > 1", {}, "RuleError"],
    ["int(volume.secondsToFull) > 1", { secondsToFull: Infinity }, "RuleError"],
    ["quantity(volume.annotations.size) > 1", { annotations: { size: "much" } }, "RuleError"],
  ] as const)("%s with %j is %s", (source, volume, kind) => {
    expect(rule(source).evaluate(aScope({ volume }))).toMatchObject({ ok: false, kind });
  });

  it("can be asked for with has", () => {
    const known = rule("has(volume.secondsToFull) && volume.secondsToFull < 60.0");
    expect(known.evaluate(aScope({ volume: { secondsToFull: undefined } }))).toEqual({ ok: true, value: false });
  });

  it("does not matter when the other side of || or && decides alone", () => {
    const scope = aScope({ volume: { usedRatio: undefined } });
    for (const source of [
      "volume.usedRatio > 0.5 || volume.name == 'orders'",
      "volume.name == 'orders' || volume.usedRatio > 0.5",
      "!(volume.usedRatio > 0.5 && volume.name == 'x')",
      "!(volume.name == 'x' && volume.usedRatio > 0.5)",
    ])
      expect(rule(source).evaluate(scope)).toEqual({ ok: true, value: true });
    expect(rule("volume.usedRatio > 0.5 || volume.name == 'x'").evaluate(scope)).toMatchObject({ ok: false });
  });
});

describe("variables", () => {
  const windowCounted = (source: string, list: { name: string; expression: string }[]) => {
    let reads = 0;
    const compiled = rule(source, list);
    const scope = aScope({ usedBytesMax: () => ++reads });
    return { compiled, scope, reads: () => reads };
  };
  const peak = { name: "peak", expression: "volume.usedBytesMax('24h')" };

  it("run once per scope, whoever reads them", () => {
    const { compiled, scope, reads } = windowCounted("variables.double > variables.peak && variables.peak == 1", [
      peak,
      { name: "double", expression: "variables.peak * 2" },
    ]);
    expect(compiled.evaluate(scope)).toEqual({ ok: true, value: true });
    expect(compiled.evaluate(scope)).toEqual({ ok: true, value: true });
    expect(reads()).toBe(1);
  });

  it("run again on other facts", () => {
    const compiled = rule("variables.half", [{ name: "half", expression: "volume.usedRatio >= 0.5" }]);
    expect(compiled.evaluate(aScope())).toEqual({ ok: true, value: true });
    expect(compiled.evaluate(aScope({ volume: { usedRatio: 0.4 } }))).toEqual({ ok: true, value: false });
  });

  it("do not run when nothing asks for them", () => {
    const { compiled, scope, reads } = windowCounted("volume.name == 'orders' || variables.peak > 0", [peak]);
    expect(compiled.evaluate(scope)).toEqual({ ok: true, value: true });
    expect(reads()).toBe(0);
  });

  it("carry their unit, so a ratio stays one", () => {
    const list = [{ name: "peak", expression: "volume.usedRatioMax('24h')" }];
    expect(problemIn("variables.peak < 30", "bool", list).hint).toBe("ratios are 0..1: write 0.3");
  });
});

describe("what an expression is wanted for", () => {
  const evaluated = (source: string, wanted: "string" | "size", volume = {}) => {
    const compiled = compileExpression(source, wanted, variablesOf());
    return compiled.ok ? compiled.expression.evaluate(aScope({ volume })) : compiled.problems;
  };

  it.each([
    ["percent(volume.usedRatio) + ' of ' + bytes(volume.capacityBytes)", "50% of 16Gi"],
    ["'grows ' + bytes(volume.growthBytesPerSecond * 1.5) + '/s on ' + node.name", "grows 1.50Ki/s on node-1"],
    ["string(volume.inodesUsed) + volume.labels.tier.upperAscii()", "250000CACHE"],
  ])("the string %s is %s", (source, value) => {
    expect(evaluated(source, "string")).toEqual({ ok: true, value });
  });

  it.each([
    ["quantity('10Gi')", 10 * GIB],
    ["volume.usedBytes * 2", 16 * GIB],
    ["double(volume.usedBytes) * 1.0000000001", 8 * GIB + 1],
  ])("the size %s is %d bytes", (source, value) => {
    expect(evaluated(source, "size")).toEqual({ ok: true, value });
  });

  it.each(["volume.usedBytes - volume.capacityBytes", "double(volume.usedBytes) / 0.0", "volume.usedBytes * 9000000"])(
    "the size %s fails",
    (source) => {
      expect(evaluated(source, "size")).toMatchObject({ ok: false, kind: "RuleError" });
    },
  );
});

describe("limits at run time", () => {
  it("a loop over more keys than its bound fails instead of leaving some out", () => {
    const labels = Object.fromEntries(Array.from({ length: 65 }, (_, index) => [`key-${index}`, "x"]));
    const result = rule("volume.labels.all(key, key != 'y')").evaluate(aScope({ volume: { labels } }));
    expect(result).toMatchObject({ ok: false, kind: "RuleError" });
  });

  it("strings do not double without bound through variables", () => {
    const list = [{ name: "v0", expression: "volume.annotations.text" }];
    for (let index = 1; index < 32; index += 1)
      list.push({ name: `v${index}`, expression: `variables.v${index - 1} + variables.v${index - 1}` });
    const scope = aScope({ volume: { annotations: { text: "x".repeat(1000) } } });
    expect(rule("variables.v31 == ''", list).evaluate(scope)).toMatchObject({ ok: false, kind: "RuleError" });
  });

  it("a value longer than any search may be fails", () => {
    const scope = aScope({ volume: { annotations: { text: "x".repeat(4097) } } });
    expect(rule("volume.annotations.text.contains('y')").evaluate(scope)).toMatchObject({
      ok: false,
      kind: "RuleError",
    });
  });

  it("a text longer than any pattern is searched in fails", () => {
    const annotations = { text: "a".repeat(321) };
    expect(rule("volume.annotations.text.matches('^a+$')").evaluate(aScope({ volume: { annotations } }))).toMatchObject(
      { ok: false, kind: "RuleError" },
    );
  });

  it("a pattern that would make a backtracking engine hang is linear", () => {
    const annotations = { text: `${"a".repeat(319)}b` };
    const result = rule("volume.annotations.text.matches('^(a+)+$')").evaluate(aScope({ volume: { annotations } }));
    expect(result).toEqual({ ok: true, value: false });
  });
});

describe("JavaScript's objects", () => {
  it.each(["constructor", "__proto__", "toString", "hasOwnProperty", "prototype"])("have no %s to reach", (name) => {
    const scope = aScope();
    expect(() => rule(`volume.${name} == ''`)).toThrow();
    expect(() => rule(`node.${name} == ''`)).toThrow();
    expect(() => rule(`${name} == ''`)).toThrow();
    expect(() => rule(`variables.${name} == ''`)).toThrow();
    expect(rule(`'${name}' in volume.labels || has(volume.labels.${name})`).evaluate(scope)).toEqual({
      ok: true,
      value: false,
    });
    expect(rule(`volume.labels['${name}'] == ''`).evaluate(scope)).toMatchObject({ ok: false, kind: "RuleError" });
    expect(rule(`{'a': volume.name}['${name}'] == ''`).evaluate(scope)).toMatchObject({ ok: false });
  });
});
