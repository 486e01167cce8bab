// How often what approvals change is decided again.
import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import { followApprovals } from "../../../../src/policy-engine/engine/follow-approvals.ts";
import { anApproval } from "../../../builders/approval.ts";
import { engineCaches } from "../../../fakes/engine-caches.ts";
import { createRecordingLog } from "../../../fakes/recording-log.ts";
import { servedClient } from "../../../fakes/served-client.ts";

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

/** Rounds that end when the test says so. */
function followed() {
  const caches = engineCaches();
  const ends: (() => void)[] = [];
  const approving = followApprovals(
    {
      ...{ client: servedClient({}), caches, leadership: { isLeader: () => false } },
      clock: { nowMs: () => Date.now(), monotonicMs: () => Date.now() },
      log: createRecordingLog().log,
    },
    () => new Promise<void>((resolve) => ends.push(resolve)),
  );
  const write = (generation: number): void => caches.approvals.put(anApproval("ok", {}, generation));
  return { approving, write, ends };
}

describe("what approvals change", () => {
  it("is decided once for changes that come together", async () => {
    const { write, ends } = followed();
    write(1);
    write(2);
    await jest.advanceTimersByTimeAsync(500);
    expect(ends).toHaveLength(1);
  });

  it("is decided in one round at a time: what comes in during one has the next", async () => {
    const { write, ends } = followed();
    write(1);
    await jest.advanceTimersByTimeAsync(500);
    for (let generation = 2; generation < 8; generation += 1) {
      write(generation);
      await jest.advanceTimersByTimeAsync(500);
    }
    expect(ends).toHaveLength(1);
    ends[0]?.();
    await jest.advanceTimersByTimeAsync(500);
    expect(ends).toHaveLength(2);
    ends[1]?.();
    await jest.advanceTimersByTimeAsync(5000);
    expect(ends).toHaveLength(2);
  });

  it("is decided no more once the process stops", async () => {
    const { approving, write, ends } = followed();
    write(1);
    await approving.stop();
    write(2);
    await jest.advanceTimersByTimeAsync(5000);
    expect(ends).toHaveLength(0);
  });
});
