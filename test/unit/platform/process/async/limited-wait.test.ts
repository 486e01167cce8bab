import { getEventListeners } from "node:events";
import { describe, expect, it, jest } from "@jest/globals";
import { unlessAborted, withTimeLimit } from "../../../../../src/platform/process/async/limited-wait.ts";

const never = new Promise<never>(() => undefined);

describe("a wait with a time limit", () => {
  const late = (limitMs: number): never => {
    throw new Error(`no answer after ${limitMs} ms`);
  };

  it("gives what the work gives within the limit, as it gives it", async () => {
    expect(await withTimeLimit(Promise.resolve(1), 10_000, late)).toBe(1);
    await expect(withTimeLimit(Promise.reject(new Error("lost")), 10_000, late)).rejects.toThrow("lost");
  });

  it("gives what the caller says once the limit is over: an error of its own, or another result", async () => {
    await expect(withTimeLimit(never, 1, late)).rejects.toThrow("no answer after 1 ms");
    expect(await withTimeLimit<string>(never, 1, (limitMs) => `none for ${limitMs} ms`)).toBe("none for 1 ms");
  });

  it("takes a limit that is over already", async () => {
    await expect(withTimeLimit(never, -5, late)).rejects.toThrow("no answer after -5 ms");
  });

  it("drops what the work does later: also its failure ends nothing", async () => {
    let fail = (_error: Error): void => undefined;
    const work = new Promise<never>((_, reject) => {
      fail = reject;
    });
    await expect(withTimeLimit(work, 1, late)).rejects.toThrow("no answer");
    fail(new Error("long after"));
    await new Promise((resolve) => setImmediate(resolve)); // an unhandled rejection would end the process
  });

  it("leaves no timer behind", async () => {
    jest.useFakeTimers();
    try {
      await withTimeLimit(Promise.resolve(), 10_000, late);
      await expect(withTimeLimit(Promise.reject(new Error("lost")), 10_000, late)).rejects.toThrow("lost");
      expect(jest.getTimerCount()).toBe(0);
    } finally {
      jest.useRealTimers();
    }
  });
});

describe("a wait that a signal ends", () => {
  it("gives what the work gives, or nothing once the signal aborts", async () => {
    const controller = new AbortController();
    expect(await unlessAborted(Promise.resolve(1), controller.signal)).toBe(1);
    await expect(unlessAborted(Promise.reject(new Error("lost")), controller.signal)).rejects.toThrow("lost");
    const waiting = unlessAborted(never, controller.signal);
    controller.abort();
    expect(await waiting).toBeUndefined();
    expect(await unlessAborted(never, controller.signal)).toBeUndefined();
  });

  it("gives what the caller says instead, which may be an error of its own", async () => {
    const controller = new AbortController();
    const refuse = (reason: unknown): never => {
      throw new Error(`not waited for: ${String(reason)}`);
    };
    expect(await unlessAborted(Promise.resolve(1), controller.signal, refuse)).toBe(1);
    const waiting = expect(unlessAborted(never, controller.signal, refuse)).rejects.toThrow(
      "not waited for: an extend",
    );
    controller.abort("an extend");
    await waiting;
    await expect(unlessAborted(never, controller.signal, refuse)).rejects.toThrow("not waited for: an extend");
  });

  it("leaves nothing behind on a signal that many waits share", async () => {
    const { signal } = new AbortController();
    for (let step = 0; step < 20; step += 1) await unlessAborted(Promise.resolve(), signal);
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });
});
