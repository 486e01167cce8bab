// What does not compile: each with the position of what is wrong and words that help.
import { describe, expect, it } from "@jest/globals";
import { compileVariables } from "../../../../src/policy-engine/cel/expression.ts";
import { problemIn } from "./compiled.ts";

describe("refused with position and hint", () => {
  it.each([
    // source, the refused part, in the message, in the hint
    ["volume.capcityBytes > 1", "capcityBytes", "no field", "did you mean capacityBytes?"],
    ["usedRatio > 0.5", "usedRatio", "unknown name usedRatio", "did you mean volume.usedRatio?"],
    ["volume.usedRatioMax(24h) < 0.3", "h", "expected", "a window is a string: usedRatioMax('24h')"],
    ["volum.usedRatio > 0.5", "volum", "unknown name volum", "did you mean volume?"],
    ["variables.peak > 0.5", "peak", "no variable peak", "there are none"],
    ["volume.usedRatio >= 80", "volume.usedRatio >= 80", "ratio compared with 80", "ratios are 0..1: write 0.8"],
    ["80.0 <= volume.usedRatio", "80.0 <= volume.usedRatio", "ratio compared with 80", "write 0.8"],
    ["volume.usedRatioMax('1h') < 30", "volume.usedRatioMax('1h') < 30", "ratio compared with 30", "write 0.3"],
    ["node.ioUtilizationRatio > -0.1", "node.ioUtilizationRatio > -0.1", "ratio compared", "ratios are 0..1"],
    ["volume.usedRatio == 1", "volume.usedRatio == 1", "double == int", "1.0 instead of 1"],
    ["volume.usedBytes / volume.capacityBytes > 0", "volume.usedBytes / volume.capacityBytes", "drops", "usedRatio"],
    [
      "volume.inodesUsed / volume.inodesTotal > 0",
      "volume.inodesUsed / volume.inodesTotal",
      "drops",
      "inodesUsedRatio",
    ],
    ["volume.usedRatio > volume.usedBytes", "volume.usedRatio > volume.usedBytes", "ratio compared with bytes", "unit"],
    ["volume.ageSeconds > duration('1h')", "volume.ageSeconds > duration('1h')", "double > duration", "3600.0"],
    ["volume.usedBytes > '10Gi'", "volume.usedBytes > '10Gi'", "int > string", "quantity('10Gi')"],
    ["now > now - duration('1hh')", "duration('1hh')", '"1hh" is not a duration', undefined],
    ["volume.usedBytes > quantity('zz')", "quantity('zz')", '"zz" is not a quantity', undefined],
    ["now > timestamp('2026-02-30T00:00:00Z')", "timestamp('2026-02-30T00:00:00Z')", "is not a timestamp", undefined],
    ["volume.usedRatioMax(volume.name) > 0.5", "volume.name", "not a literal", "'24h'"],
    ["volume.usedRatioMax('2' + '4h') > 0.5", "'2' + '4h'", "not a literal", "'24h'"],
    ["volume.usedRatioMax('500ms') > 0.5", "'500ms'", "out of range", "1s to 7d"],
    ["volume.usedBytesMax('8d') > 5", "'8d'", "out of range", "1s to 7d"],
    ["volume.usedMax('1d') > 5", "volume.usedMax('1d')", "no function usedMax()", "usedRatioMax"],
    ["true", "true", "the rule is true for every volume", "fact"],
    ["1 < 2", "1 < 2", "the rule is true for every volume", "fact"],
    ["false && volume.usedRatio > 0.5", "false && volume.usedRatio > 0.5", "is false for every volume", "fact"],
    ["[1, 2].exists(x, x > 1)", "[1, 2].exists(x, x > 1)", "the same for every volume", "fact"],
    ["volume.usedRatio", "volume.usedRatio", "a double, a bool is needed", "compare it"],
    ["volume", "volume", "not a value by itself", "name one of its fields"],
    ["volume.name.matches(volume.namespace)", "volume.namespace", "not a literal", "write it as a string"],
    ["volume.name.matches(r'(a)\\1')", "r'(a)\\1'", "not an RE2 expression", "no backreferences"],
    ["volume.name.matches('(?=a)')", "'(?=a)'", "not an RE2 expression", "no lookaround"],
    ["volume.name.matches('[')", "'['", "not an RE2 expression", undefined],
    ["matches(volume.name, 'a')", "matches(volume.name, 'a')", "unknown function matches()", "value.matches(…)"],
    ["volume.name.percent() == ''", "volume.name.percent()", "unknown method percent()", "percent(…)"],
    ["now.getHours('+02:00') == 3", "'+02:00'", "not a time zone", "offsets are not supported"],
    ["now.getHours('Europe/Atlantis') == 3", "'Europe/Atlantis'", "not a time zone", undefined],
    ["now.getHours(volume.name) == 3", "now.getHours(volume.name)", "literal time zone", undefined],
    ["volume.usedRatio = 0.5", "=", "unexpected character", "write =="],
    ["volume.usedRatio => 0.5", "=", "unexpected character", "write >="],
    ["volume.usedRatio > .8", ".", "unexpected", "0.8"],
    ["volume.usedRatio > 0,8", ",", "", "0.8"],
    ["volume.usedRatio > '0.8'", "volume.usedRatio > '0.8'", "double > string", "without quotes: 0.8"],
    ["volume.usedRatio > 1.2", "volume.usedRatio > 1.2", "ratio compared with 1.2", "ratios are 0..1"],
    ["volume.labels.my-tier == 'a'", "volume.labels.my-tier", "is a subtraction", "volume.labels['my-tier']"],
    ["has(volume.labels.my-tier)", "has(volume.labels.my-tier)", "needs a field", "'my-tier' in volume.labels"],
    [
      "volume.labels.app.kubernetes.io == 'a'",
      "kubernetes",
      "a string has no field kubernetes",
      "volume.labels['app.kubernetes…']",
    ],
    ["volume.usedRatio > 80%", "", "end of the expression", "0.8 instead of 80%"],
    ["volume.name == 'a' and volume.backend == 'b'", "and", "unexpected", "write &&"],
    ["volume.usedBytes > 10 Gi", "Gi", "unexpected", "quantity('10Gi')"],
    ["volume.usedBytes > 9223372036854775808", "9223372036854775808", "integer overflow", undefined],
    ["volume.name < 'x'", "volume.name < 'x'", "string < string", "only == and !="],
    ["volume.labels == volume.annotations", "volume.labels == volume.annotations", "not defined", "items"],
    ["volume.labels.all(now, true)", "now", "already has a meaning", "otherwise"],
    ["  ", "  ", "empty", undefined],
  ] as const)("%s at %s", (source, part, message, hint) => {
    const problem = problemIn(source);
    expect(problem.message).toContain(message);
    if (hint !== undefined) expect(problem.hint).toContain(hint);
    expect(source.slice(problem.start, problem.end).trim()).toContain(part.trim());
  });

  it("counts lines and columns from 1", () => {
    const problem = problemIn("volume.usedRatio > 0.5\n  && volume.nam == 'x'");
    expect(problem).toMatchObject({ line: 2, column: 13, start: 35, end: 38 });
  });
});

describe("not in the dialect at all", () => {
  it.each([
    "volume.usedBytes > 1u",
    "volume.name == b'x'",
    "dyn(volume.name) == 'x'",
    "type(volume.name) == string",
    "null == null || volume.usedRatio > 0.5",
    "volume.?name == 'x'",
    "volume.labels[?'a'] == 'x'",
    "cel.bind(x, volume.name, x == 'a')",
    "google.protobuf == 1",
    "volume['name'] == 'x'",
    "[[1]].exists(x, volume.usedRatio > 0.5)",
    "volume.name.split(',').exists(x, x == 'a')",
    "volume.labels.exists(volume.usedRatio > 0.5)",
    "[].all(e, e > 0) && volume.usedRatio > 0.5",
    "duration('1h') + now > now",
    "duration('1.5s').getMilliseconds() == 500 && volume.usedRatio > 0.5",
    "string(now) == ''",
    "has({'a': 1}.a) && volume.usedRatio > 0.5",
    "has(variables.a)",
    "volume.constructor.name == 'x'",
    "'a' + 1 == 'a1' && volume.usedRatio > 0.5",
    "volume.usedBytes && volume.usedRatio > 0.5",
    "{'a': 1, 'a': 2}['a'] == volume.usedBytes",
    "{1: 2}[1] == volume.usedBytes",
    "[1, 2.0].exists(x, x == volume.usedRatio)",
    "volume.usedRatio > 0.5 ? true : 1",
    "math.abs(volume.usedRatio) > 0.5",
    "math.greatest(volume.usedRatio) > 0.5",
    "math.greatest(1, 2, 3, 4, volume.usedBytes) > 5",
  ])("%s", (source) => {
    expect(problemIn(source).message).not.toBe("");
  });
});

describe("too large", () => {
  const clause = "volume.usedRatio > 0.5";
  it.each([
    ["20,000 clauses", Array.from({ length: 20_000 }, () => clause).join(" || "), "characters"],
    ["300 clauses in a row", Array.from({ length: 300 }, () => "now>now").join("||"), "deep"],
    ["5,000 parentheses", `${"(".repeat(5000)}${clause}${")".repeat(5000)}`, "characters"],
    ["1,000 parentheses", `${"(".repeat(1000)}${clause}${")".repeat(1000)}`, "deep"],
    ["4,000 negations", `${"!".repeat(4000)}(${clause})`, "deep"],
    ["4,000 minus signs", `${"-".repeat(4000)}1 < volume.usedBytes`, "deep"],
    ["65 items", `volume.usedBytes in [${Array.from({ length: 66 }, (_, i) => i).join(",")}]`, "more than 64 items"],
    ["loops in loops in loops", "volume.labels.all(a, volume.labels.all(b, volume.labels.all(c, c == a)))", "nested"],
    ["loops that cost too much", "volume.labels.all(a, volume.labels.all(b, (a + b).matches('x')))", "steps"],
    ["a large pattern in a loop", "volume.labels.exists(k, k.matches('a[ab]{900}[cd]'))", "steps"],
    ["a pattern that would stop every other decision", "volume.name.matches('(a[ab]{900})|(b[ab]{900})')", "steps"],
    [
      "patterns that would take seconds to compile",
      `volume.name.matches(r'${"(a|b|\\w){1000}".repeat(200)}')`,
      "steps",
    ],
    [
      "a pattern of repeated repetitions",
      "volume.name.matches('((a{10}b){20}){30}')",
      "the patterns of this expression",
    ],
  ])("%s", (_, source, message) => {
    expect(problemIn(source).message).toContain(message);
  });
});

describe("variables", () => {
  const problemsOf = (...list: [string, string][]) => {
    const compiled = compileVariables(list.map(([name, expression]) => ({ name, expression })));
    return compiled.ok ? [] : compiled.problems.map(({ variable, message }) => `${variable}: ${message}`);
  };

  it("that nothing reads are compiled all the same", () => {
    expect(problemsOf(["fine", "volume.usedRatio"], ["broken", "volume.nope"])).toEqual([
      "broken: volume has no field nope",
    ]);
  });

  it("see only those before them, never themselves", () => {
    expect(problemsOf(["a", "variables.b"], ["b", "1"], ["c", "variables.c"])).toEqual([
      "a: there is no variable b before this",
      "c: there is no variable c before this",
    ]);
  });

  it.each(["__proto__", "constructor", "toString", "a-b", ""])("are not called %j", (name) => {
    expect(problemsOf([name, "1"])).toHaveLength(1);
  });

  it("have names of their own", () => {
    expect(problemsOf(["a", "1"], ["a", "2"])).toEqual(["a: there is already a variable a"]);
  });

  it("are at most 32", () => {
    const many = Array.from({ length: 1000 }, (_, index): [string, string] => [`v${index}`, "1"]);
    expect(problemsOf(...many)).toEqual(["v32: there are more than 32 variables"]);
  });

  it("do not add up to more depth or cost than one expression may have", () => {
    const nested = `${"!".repeat(100)}`;
    const deep: [string, string][] = [["v0", "volume.usedRatio > 0.5"]];
    for (let index = 1; index < 5; index += 1) deep.push([`v${index}`, `${nested}variables.v${index - 1}`]);
    expect(problemsOf(...deep)[0]).toMatch(/^v3: .*250 deep/);
    const dear = "volume.labels.all(a, volume.labels.all(b, a == b))";
    expect(problemsOf(["a", dear], ["b", `variables.a && ${dear}`])).toEqual([expect.stringMatching(/^b: .*steps/)]);
  });
});
