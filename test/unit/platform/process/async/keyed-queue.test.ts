import { describe, expect, it } from "@jest/globals";
import { createKeyedQueue } from "../../../../../src/platform/process/async/keyed-queue.ts";

const forever = () => new Promise<never>(() => undefined);

describe("a keyed queue", () => {
  it("runs one thing at a time for a key, in order, also after one that failed", async () => {
    const queue = createKeyedQueue();
    const order: string[] = [];
    const first = queue.run("a", async () => {
      order.push("first begins");
      await new Promise((resolve) => setTimeout(resolve, 5));
      order.push("first ends");
      throw new Error("no");
    });
    const second = queue.run("a", async () => order.push("second"));
    await expect(first).rejects.toThrow("no");
    await second;
    expect(order).toEqual(["first begins", "first ends", "second"]);
  });

  it("gives a name's turns one after the other, also after one that failed, and those of another name at once", async () => {
    const queue = createKeyedQueue();
    const said: string[] = [];
    let letGo = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    const first = queue.run("shop", async () => {
      await held;
      said.push("first");
      throw new Error("no");
    });
    const second = queue.run("shop", async () => said.push("second"));
    await queue.run("bank", async () => said.push("another"));
    letGo();
    await expect(first).rejects.toThrow("no");
    await second;
    expect(said).toEqual(["another", "first", "second"]);
  });

  it("takes what throws at once for what fails", async () => {
    const queue = createKeyedQueue();
    const failing = queue.run("a", () => {
      throw new Error("at once");
    });
    await expect(failing).rejects.toThrow("at once");
    expect(await queue.run("a", async () => 1)).toBe(1);
  });

  it("never waits for another key", async () => {
    const queue = createKeyedQueue();
    void queue.run("hung", forever);
    await expect(queue.run("well", async () => "done")).resolves.toBe("done");
  });

  it("refuses callers when too many wait under a key that hangs, and under that key alone", async () => {
    const queue = createKeyedQueue(8);
    for (let callers = 0; callers < 8; callers += 1) void queue.run("hung", forever);
    const refused = queue.run("hung", async () => "never");
    await expect(refused).rejects.toMatchObject({ name: "QueueFullError", key: "hung", limit: 8 });
    expect(await queue.run("well", async () => "done")).toBe("done");
  });

  it("takes callers again once those that waited are through", async () => {
    const queue = createKeyedQueue(2);
    for (let round = 0; round < 5; round += 1)
      await Promise.allSettled([queue.run("a", async () => 1), queue.run("a", () => Promise.reject(new Error("no")))]);
    expect(await queue.run("a", async () => "done")).toBe("done");
  });

  it("is busy under a key, and at all, for as long as something runs or waits", async () => {
    const queue = createKeyedQueue();
    expect(queue.isBusy()).toBe(false);
    const both = [queue.run("a", async () => 1), queue.run("a", () => Promise.reject(new Error("no")))];
    expect([queue.isBusy("a"), queue.isBusy("b"), queue.isBusy()]).toEqual([true, false, true]);
    await both[0];
    expect(queue.isBusy("a")).toBe(true);
    await expect(both[1]).rejects.toThrow("no");
    expect([queue.isBusy("a"), queue.isBusy()]).toEqual([false, false]);
  });
});
