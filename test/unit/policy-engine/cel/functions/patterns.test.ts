import { describe, expect, it } from "@jest/globals";
import { createPatternCache, PolicyPatterns } from "../../../../../src/policy-engine/cel/functions/patterns.ts";

describe("the patterns of policies", () => {
  it("are compiled once for each source", () => {
    const cache = createPatternCache();
    expect(cache.compile("^db-[0-9]+$")).toBe(cache.compile("^db-[0-9]+$"));
    expect(cache.compile("a")).not.toBe(cache.compile("b"));
  });

  it("are forgotten when they hold too much, those first that were compiled first", () => {
    const cache = createPatternCache(6);
    const [first, second] = [cache.compile("a{3}"), cache.compile("b{3}")];
    cache.compile("c");
    expect(cache.compile("b{3}")).toBe(second);
    expect(cache.compile("a{3}")).not.toBe(first);
  });

  it("are refused again each time when RE2 refuses them", () => {
    const cache = createPatternCache();
    expect(() => cache.compile("[")).toThrow("missing closing");
    expect(() => cache.compile("[")).toThrow("missing closing");
  });

  it("count once for a policy, in however many places they stand", () => {
    const patterns = new PolicyPatterns(createPatternCache());
    for (const source of ["a{10}", "b", "a{10}"]) patterns.count(source);
    expect(patterns.ranges).toBe(11);
  });
});
