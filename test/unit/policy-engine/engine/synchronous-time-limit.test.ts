import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { describe, expect, it } from "@jest/globals";
import { createTimeLimit, threadCpuMs } from "../../../../src/policy-engine/engine/own-limits.ts";

describe("what a thread has spent", () => {
  it.each([
    ["there", "/proc/thread-self/schedstat"],
    ["not there", "/proc/thread-self/none"],
    ["empty", "/dev/null"],
  ])("grows with what it does, where the kernel's figure is %s", (_where, path) => {
    const beforeMs = threadCpuMs(path);
    for (const sinceMs = performance.now(); performance.now() - sinceMs < 50; );
    expect(threadCpuMs(path)).toBeGreaterThan(beforeMs);
  });
});

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
    // On a machine without a core to spare the next attempt may stand still, too.
    expect(limit.run(standStill)).toBeGreaterThanOrEqual(2);
  });

  it("blames no work for what other threads of its process take", async () => {
    const limit = createTimeLimit(200);
    const busy = new Worker("for (;;);", { eval: true });
    try {
      await once(busy, "online");
      let begun = 0;
      const waits = (): number => {
        begun += 1;
        if (begun === 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 800);
        for (let turn = 0; turn < 1000; turn += 1);
        return begun;
      };
      expect(limit.run(waits)).toBeGreaterThanOrEqual(2);
    } finally {
      await busy.terminate();
    }
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
