import { describe, expect, it } from "@jest/globals";
import { createTimeLimit } from "../../../../src/policy-engine/engine/synchronous-time-limit.ts";

describe("a time limit", () => {
  it("ends work that would never end", () => {
    const limit = createTimeLimit(50);
    let rounds = 0;
    expect(
      limit.run(() => {
        for (;;) rounds += 1;
      }),
    ).toBe("too slow");
    expect(rounds).toBeGreaterThan(0);
  });

  it("blames no work for the time in which its process stood still", () => {
    const limit = createTimeLimit(50);
    let begun = 0;
    const standStill = (): number => {
      begun += 1;
      if (begun === 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
      for (let turn = 0; turn < 1000; turn += 1);
      return begun;
    };
    expect(limit.run(standStill)).toBe(2);
  });

  it("cannot be swallowed by a catch in the work", () => {
    const limit = createTimeLimit(50);
    let caught = 0;
    const stubborn = (): void => {
      try {
        for (;;);
      } catch {
        caught += 1;
      }
    };
    expect(limit.run(stubborn)).toBe("too slow");
    expect(caught).toBe(0);
  });

  it("returns what quick work returns, passes its throws, and serves again after an interruption", () => {
    const limit = createTimeLimit(1000); // so long no busy machine keeps a thread waiting
    expect(
      limit.run(() => {
        for (;;);
      }),
    ).toBe("too slow");
    expect(limit.run(() => 42)).toBe(42);
    expect(() =>
      limit.run(() => {
        throw new Error("its own");
      }),
    ).toThrow("its own");
  });
});
