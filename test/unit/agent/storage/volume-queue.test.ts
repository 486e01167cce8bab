import { describe, expect, it } from "@jest/globals";
import { createVolumeQueue } from "../../../../src/agent/storage/volume-queue.ts";

describe("the queue of a volume's operations", () => {
  it("runs one operation at a time per volume, in order, and others beside it", async () => {
    const queue = createVolumeQueue();
    const log: string[] = [];
    let finishFirst = (): void => undefined;
    const first = queue.run("a", () => new Promise<void>((resolve) => (finishFirst = resolve)));
    const second = queue.run("a", async () => void log.push("second"));
    await queue.run("b", async () => void log.push("other volume"));
    log.push("first ends");
    finishFirst();
    await Promise.all([first, second]);
    expect(log).toEqual(["other volume", "first ends", "second"]);
  });

  it("goes on after an operation that failed", async () => {
    const queue = createVolumeQueue();
    const failed = queue.run("a", () => Promise.reject(new Error("no")));
    await expect(failed).rejects.toThrow("no");
    expect(await queue.run("a", async () => 1)).toBe(1);
  });

  it("tells a preemptible operation to stop, and waits for it", async () => {
    const queue = createVolumeQueue();
    const log: string[] = [];
    const outer = new AbortController().signal;
    const shrink = queue.runPreemptible("a", outer, async (signal) => {
      await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      log.push("stopped");
    });
    await Promise.resolve();
    await queue.runPreempting("a", async () => void log.push("went first"));
    await shrink;
    expect(log).toEqual(["stopped", "went first"]);
  });

  it("tells all of them to stop: a shrink that waits, and the trim that it waits for", async () => {
    const queue = createVolumeQueue();
    const log: string[] = [];
    const untilStopped = (what: string) => async (signal: AbortSignal) => {
      if (!signal.aborted) await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      log.push(`${what} stopped`);
    };
    const outer = new AbortController().signal;
    const preempted = ["trim", "shrink"].map((what) => queue.runPreemptible("a", outer, untilStopped(what)));
    await queue.runPreempting("a", async () => void log.push("went first"));
    await Promise.all(preempted);
    expect(log).toEqual(["trim stopped", "shrink stopped", "went first"]);
  });

  it("stops nothing of what comes later", async () => {
    const queue = createVolumeQueue();
    await queue.runPreempting("a", async () => undefined);
    const aborted = await queue.runPreemptible("a", new AbortController().signal, async (signal) => signal.aborted);
    expect(aborted).toBe(false);
  });
});
