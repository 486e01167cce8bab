// What the author of a policy that does not compile reads: where, what and what to write instead.
import { expect, it } from "@jest/globals";
import { checkPolicy } from "../../../../src/policy-engine/admission/check-policy.ts";
import { refusalText } from "../../../../src/policy-engine/admission/refusal-text.ts";
import { aClusterPolicy, aVolumePolicy, EXTEND_AT_80 } from "../../../builders/policy.ts";

const linesOf = (when: string): string[] =>
  (checkPolicy(aVolumePolicy({ rules: [{ ...EXTEND_AT_80, when }] })).refusal ?? "").split("\n");

/** The character over the caret. */
const marked = ([, , source = "", caret = ""]: readonly string[]): string => source.slice(caret.indexOf("^"));

it("names the policy, the field, line and column, shows the line with a caret under the place, and gives a hint", () => {
  expect(linesOf("volume.ageSeconds > 1.0 && volume.usedRatio >= 80")).toEqual([
    "VolumePolicy shop/default does not compile:",
    "spec.rules[0].when, line 1, column 28: a ratio compared with 80 is the same for every volume",
    "    volume.ageSeconds > 1.0 && volume.usedRatio >= 80",
    "                               ^",
    expect.stringMatching(/^ {4}hint: ratios are 0\.\.1/),
  ]);
});

it("shows the line that has the place, of several", () => {
  const lines = linesOf("volume.usedRatio >= 0.8\n  || volume.usedratio > 0.9");
  expect(lines[1]).toContain("line 2, column 13");
  expect(lines[2]).toBe("      || volume.usedratio > 0.9");
  expect(marked(lines)).toBe("usedratio > 0.9");
});

it("shows what is around the place of a long line", () => {
  const lines = linesOf(
    `${"volume.usedRatio > 0.5 || ".repeat(8)}volume.usedratio > 0.9${" || volume.usedRatio > 0.5".repeat(8)}`,
  );
  expect(lines[2]).toMatch(/^ {4}…/);
  expect(lines[2]).toMatch(/…$/);
  expect(lines[2]?.length).toBeLessThan(110);
  expect(marked(lines)).toMatch(/^usedratio/);
});

it("has no character in it by which a text could do something to a terminal", () => {
  const [, , shown = ""] = linesOf("volume.usedratio > 0.8 // \u001b[31mred\u0007\t.");
  expect(shown).not.toMatch(/\p{Cc}/u);
});

it("puts the caret under the place after characters of two units", () => {
  const lines = linesOf("'😀' == volume.usedratio");
  const caret = (lines[3] ?? "").indexOf("^");
  expect([...(lines[2] ?? "")].slice(caret).join("")).toBe("usedratio");
});

it("names a field that is no expression, without a place", () => {
  const { limits: _, ...spec } = aVolumePolicy().spec;
  const { refusal } = checkPolicy({ ...aVolumePolicy(), spec });
  expect(refusal).toBe(
    "VolumePolicy shop/default does not compile:\nspec.limits.max: max is required: rule extend-at-80 extends, and a volume must not grow without a bound",
  );
});

it("tells of five problems, and how many there are besides", () => {
  const rules = Array.from({ length: 7 }, (_, index) => ({
    ...EXTEND_AT_80,
    name: `rule-${index}`,
    when: "volume.used",
  }));
  const { refusal = "" } = checkPolicy(aClusterPolicy({ rules }));
  expect(refusal).toMatch(/^ClusterVolumePolicy cluster does not compile:\n/);
  expect(refusal.match(/^spec\.rules/gm)).toHaveLength(5);
  expect(refusal).toMatch(/\nand 2 more problems$/);
});

it("does without the line where the object has none at that place", () => {
  const problem = { field: "spec.rules[9].when", message: "it is wrong", line: 4, column: 2 };
  expect(refusalText(aVolumePolicy(), [problem])).toBe(
    "VolumePolicy shop/default does not compile:\nspec.rules[9].when, line 4, column 2: it is wrong",
  );
});
