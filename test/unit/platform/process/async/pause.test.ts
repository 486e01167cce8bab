import { getEventListeners } from "node:events";
import { describe, expect, it } from "@jest/globals";
import { pause, waitUntil } from "../../../../../src/platform/process/async/pause.ts";

const LONG_MS = 60_000;

describe("a pause", () => {
  it("resolves after its time", async () => {
    const sinceMs = performance.now();
    await pause(20);
    expect(performance.now() - sinceMs).toBeGreaterThan(15);
  });

  it("resolves at once when its signal aborts, and for one that was before", async () => {
    const controller = new AbortController();
    const pausing = pause(LONG_MS, controller.signal);
    controller.abort(new Error("the process ends"));
    await expect(pausing).resolves.toBeUndefined();
    await expect(pause(LONG_MS, controller.signal)).resolves.toBeUndefined();
  });

  it("leaves nothing behind on a signal that many pauses share", async () => {
    const { signal } = new AbortController();
    for (let step = 0; step < 20; step += 1) await pause(0, signal);
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });
});

describe("a wait until something holds", () => {
  it("asks until the condition holds", async () => {
    let asked = 0;
    expect(await waitUntil(async () => ++asked === 3, LONG_MS, 1)).toBe(true);
    expect(asked).toBe(3);
  });

  it("says after the limit that it has not held", async () => {
    expect(await waitUntil(() => false, 20, 1)).toBe(false);
  });

  it("asks at least once, also where the limit is over", async () => {
    expect(await waitUntil(() => true, -1, LONG_MS)).toBe(true);
    expect(await waitUntil(() => false, -1, LONG_MS)).toBe(false);
  });

  it("ends with what the condition throws", async () => {
    const lost = (): boolean => {
      throw new Error("lost");
    };
    await expect(waitUntil(lost, LONG_MS, 1)).rejects.toThrow("lost");
  });
});
