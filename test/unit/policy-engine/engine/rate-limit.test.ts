import { describe, expect, it } from "@jest/globals";
import { createRateLimit } from "../../../../src/policy-engine/engine/own-limits.ts";

describe("the engine's own rate limit", () => {
  it("lets a second's worth through at once, and then no more than its rate", () => {
    const limit = createRateLimit(50);
    const taken = (nowMs: number, tries: number) =>
      Array.from({ length: tries }, () => limit.take(nowMs)).filter(Boolean).length;
    expect(taken(0, 1000)).toBe(50);
    expect(taken(100, 1000)).toBe(5);
    expect(taken(10_000, 1000)).toBe(50);
  });

  it("gives those that found none turns of their own, no more in a second than its rate", () => {
    const limit = createRateLimit(50);
    const turns = Array.from({ length: 101 }, () => limit.turnMs(0));
    expect([turns[0], turns[1], turns[100]]).toEqual([1000, 1020, 3000]);
    expect(limit.turnMs(60_000)).toBe(1000);
  });

  it("adds nothing for an instant before one that it has seen", () => {
    const limit = createRateLimit(1);
    expect(limit.take(10_000)).toBe(true);
    expect(limit.take(0)).toBe(false);
    expect(limit.take(5000)).toBe(false);
  });
});
