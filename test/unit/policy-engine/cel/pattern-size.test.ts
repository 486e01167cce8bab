import { describe, expect, it } from "@jest/globals";
import { RE2JS } from "re2js";
import { patternSize } from "../../../../src/policy-engine/cel/pattern-size.ts";

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
