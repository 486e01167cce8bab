// All conformance cases of cel-spec: what is compiled is answered as the specification says, and what is refused has a reason for users.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import { type ConformanceCase, conformanceCases } from "../../../../scripts/cel-conformance/cases.ts";
import { conformancePage } from "../../../../scripts/cel-conformance/conformance-page.ts";
import { judgeCase } from "../../../../scripts/cel-conformance/judge-case.ts";
import { readAtRunTime } from "../../../../scripts/cel-conformance/read-at-run-time.ts";

const judged = conformanceCases().map(judgeCase);

function aCase(source: string, more: Partial<ConformanceCase> = {}): ConformanceCase {
  const expected = { kind: "value", value: { boolValue: true }, type: undefined } as const;
  return { group: "own", path: `own/${source}`, source, bindings: {}, expected, ...more };
}

describe("the conformance cases of the specification", () => {
  it("are all there", () => {
    expect(judged.length).toBeGreaterThan(2300);
  });

  it("are answered rightly wherever they are answered, when they are compiled and at run time", () => {
    expect(judged.filter(({ verdict }) => verdict === "wrong").map(({ of }) => [of.path, of.source])).toEqual([]);
  });

  it("are answered for hundreds, for most of these at run time too", () => {
    expect(judged.filter(({ verdict }) => verdict === "right").length).toBeGreaterThan(500);
    expect(judged.filter(({ isRightAtRunTime }) => isRightAtRunTime).length).toBeGreaterThan(430);
  });

  it("are counted on the page as this run counts them", () => {
    expect(readFileSync("docs/reference/cel-conformance.md", "utf8")).toBe(conformancePage(judged));
  });
});

describe("a judgement", () => {
  it.each<[string, ConformanceCase, "right" | "refused" | "wrong"]>([
    ["right", aCase("1 + 1 == 2"), "right"],
    ["wrong where the value is another one", aCase("1 + 1 == 3"), "wrong"],
    ["wrong where an error is specified", aCase("1 + 1 == 2", { expected: { kind: "error" } }), "wrong"],
    [
      "wrong where the type is another one",
      aCase("1", { expected: { kind: "type", type: { primitive: "DOUBLE" } } }),
      "wrong",
    ],
    [
      "wrong where it fails and no error is specified",
      aCase("1 / x == 1", { bindings: { x: { int64Value: "0" } } }),
      "wrong",
    ],
    ["right where it fails and an error is specified", aCase("1 / 0", { expected: { kind: "error" } }), "right"],
    ["right with what its test binds", aCase("x == 'a'", { bindings: { x: { stringValue: "a" } } }), "right"],
    ["refused where the dialect does not have it", aCase("1u == 1u"), "refused"],
    ["refused where it is finer than times are", aCase("duration('1ns') > duration('0s')"), "refused"],
  ])("is %s", (_what, one, verdict) => {
    expect(judgeCase(one).verdict).toBe(verdict);
  });

  it("reads each literal at run time, a negative number as one", () => {
    expect(readAtRunTime(aCase("'a' + x == -2.5", { bindings: { x: { boolValue: true } } }))).toEqual({
      source: "volume.annotations.v0 + (volume.annotations.v1 == 'true') == double(volume.annotations.v2)",
      annotations: { v0: "a", v1: "true", v2: "-2.5" },
    });
  });
});

describe("the page", () => {
  it("is not made of a run with a wrong answer", () => {
    expect(() => conformancePage([judgeCase(aCase("1 + 1 == 3"))])).toThrow("wrong by cel-spec: own/1 + 1 == 3");
  });

  it("is not made of a refusal without a reason", () => {
    const refused = { ...judgeCase(aCase("1u == 1u")), refusal: "for a reason that no list has" };
    expect(() => conformancePage([refused])).toThrow('no reason covers "for a reason that no list has" of "1u == 1u"');
  });
});
