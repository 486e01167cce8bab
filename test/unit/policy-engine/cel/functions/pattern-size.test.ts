import { describe, expect, it } from "@jest/globals";
import fc from "fast-check";
import { RE2JS } from "re2js";
import { patternRanges, patternSize } from "../../../../../src/policy-engine/cel/functions/patterns.ts";
import { property } from "../../../../harness/property.ts";

describe("the size of a pattern, told before it is compiled", () => {
  it.each([
    ["", 0],
    ["abc", 3],
    ["[a-z0-9]", 1],
    ["[]a]b", 2],
    ["\\w\\{3}", 4],
    ["a{900}", 900],
    ["a{2,5}b", 6],
    ["a{3,}", 3],
    ["(ab){10}", 40],
    ["((a{10}b){20}){30}", 30 * (2 + 20 * (2 + 11))],
    ["(((a", 1],
    [")a{2}", 3],
  ])("%j is %d", (pattern, size) => {
    expect(patternSize(pattern)).toBe(size);
  });

  it.each([
    "^db-[0-9]+$",
    "a[ab]{300}[cd]",
    "(a|b|\\w){50}",
    "(?i)(prod|stage)-[a-z]{2,63}(-[0-9]{1,5})?",
    "((a{10}b){5}c){6}",
    "x{0}y{1}z{2,3}",
  ])("%j is at least half of what it becomes", (pattern) => {
    expect(patternSize(pattern) * 2).toBeGreaterThanOrEqual(RE2JS.compile(pattern).programSize() - 4);
  });
});

/** RE2JS has no public name for it: the pairs of bounds that each instruction has. */
function compiledRanges(pattern: string): number {
  const { re2Input }: { re2Input: { prog: { inst: readonly { runes?: readonly number[] }[] } } } =
    RE2JS.compile(pattern);
  return re2Input.prog.inst.reduce((sum, { runes }) => sum + (runes?.length ?? 0) / 2, 0);
}

describe("the ranges that a pattern holds, counted before it is compiled", () => {
  it.each([
    ["", 0],
    ["abc", 3],
    ["[a-z0-9_]", 3],
    ["[^a]", 2],
    ["[\\w.-]", 7],
    ["\\x{212A}{3}", 3],
    ["\\pL", 750],
    ["[\\p{Greek}a]{10}", 7510],
    ["\\pL(?s){5}", 3750],
    ["\\pL?(?s){5}", 3755],
    ["(?i)a{5}", 20],
    ["(?i)[a-z]", 4],
    ["(?i)[\\x{100}-\\x{24F}]", 48],
  ])("%j is %d", (pattern, ranges) => {
    expect(patternRanges(pattern)).toBe(ranges);
  });

  const ATOMS = [
    ["a", "k", "ſ", ".", "(?s).", "\\w", "\\W", "\\d", "[a-z0-9_]", "[k-s]", "[^a-z]", "[]a]", "[^]a]", "\\x{212A}"],
    ["\\pL", "\\PN", "\\pC", "\\p{Greek}", "\\p{^L}", "\\p{Any}", "[\\pL\\pN]", "[[:alpha:]x]", "[^[:^alpha:]]"],
    [
      "(?i)",
      "(?i:k)",
      "(",
      ")",
      "|",
      "*",
      "?",
      "{3}",
      "{2,5}",
      "[\\x{100}-\\x{24F}]",
      "[^\\x{1E00}-\\x{1EFF}]",
      "\\Q[x]\\E",
    ],
  ].flat();
  property(
    "is never less than what RE2 makes of it",
    { runs: 1000, reaches: { "a pattern": 0.3, "a class of Unicode": 0.1 } },
    [fc.array(fc.constantFrom(...ATOMS), { minLength: 1, maxLength: 6 })],
    (reach, atoms) => {
      const pattern = atoms.join("");
      if (!isPattern(pattern)) return;
      reach("a pattern");
      if (/\\[pP]/.test(pattern)) reach("a class of Unicode");
      expect(patternRanges(pattern)).toBeGreaterThanOrEqual(compiledRanges(pattern));
    },
  );

  it.each([
    "[\\x{13F9}-\\x{10594}]",
    "[\\x{100}-\\x{24F}]",
    "[^\\x{370}-\\x{52F}]",
    "[!-~]",
    "[0-z]",
    "[K-k]",
    "[k-s]",
  ])("holds for the range %s where case is ignored", (range) => {
    for (const pattern of [`(?i)${range}`, `(?i)(${range}){7}`, `(?i)${range}${range}`])
      expect(patternRanges(pattern)).toBeGreaterThanOrEqual(compiledRanges(pattern));
  });

  it("holds for the largest classes that there are", () => {
    for (const name of ["C", "Cn", "L", "Lo", "Lu", "M", "N", "P", "S", "Assigned", "Common", "Han"])
      for (const pattern of [`\\p{${name}}`, `\\P{${name}}`, `(?i)\\p{${name}}`])
        expect(patternRanges(pattern)).toBeGreaterThanOrEqual(compiledRanges(pattern));
  });
});

function isPattern(text: string): boolean {
  try {
    RE2JS.compile(text);
    return true;
  } catch {
    return false;
  }
}
