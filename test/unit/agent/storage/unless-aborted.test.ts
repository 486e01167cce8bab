import { getEventListeners } from "node:events";
import { expect, it } from "@jest/globals";
import { unlessAborted } from "../../../../src/agent/storage/unless-aborted.ts";

const never = new Promise<never>(() => undefined);

it("gives what the work gives, or nothing once the signal aborts", async () => {
  const controller = new AbortController();
  expect(await unlessAborted(Promise.resolve(1), controller.signal)).toBe(1);
  await expect(unlessAborted(Promise.reject(new Error("lost")), controller.signal)).rejects.toThrow("lost");
  const waiting = unlessAborted(never, controller.signal);
  controller.abort();
  expect(await waiting).toBeUndefined();
  expect(await unlessAborted(never, controller.signal)).toBeUndefined();
});

it("leaves nothing behind on a signal that many waits share", async () => {
  const { signal } = new AbortController();
  for (let step = 0; step < 20; step += 1) await unlessAborted(Promise.resolve(), signal);
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
});
