// A shrink that fails, or finds somebody else at work, moves data for nothing: the next one waits longer each time.
import { describe, expect, it } from "@jest/globals";
import { decide } from "../../../../src/policy-engine/decide/decide.ts";
import type { LastOperationFacts } from "../../../../src/policy-engine/facts/facts.ts";
import { createVolumeRegistry } from "../../../../src/policy-engine/gather/volume-registry.ts";
import { NO_CEILINGS } from "../../../../src/policy-engine/policies/ceilings.ts";
import { aVolume, NOW_MS } from "../../../builders/facts.ts";
import { aPolicy } from "../../../builders/policy.ts";
import { buildLayout, HANDLE, reported } from "../../../builders/volume.ts";

const policy = aPolicy({ behavior: { shrink: { stabilization: "0s", cooldown: "0s" } } });
const BUSY = { outcome: "Cancelled", reason: "FilesystemBusy", message: "somebody else is at work (balance)" } as const;
const FAILED = { outcome: "Failed", reason: "ResizeFailed", message: "it failed" } as const;

function planAfter(end: Partial<LastOperationFacts>, shrinksInVain: number, agoMs: number) {
  const ended = { kind: "Shrink", endedAtMs: NOW_MS - agoMs, floorBytes: undefined, ...end } as LastOperationFacts;
  const facts = aVolume({ usedRatio: 0.1, filesystem: { lastOperation: ended, shrinksInVain } });
  return decide({ ...facts, filesystem: { ...facts.filesystem } }, policy, NO_CEILINGS);
}

describe("a shrink that came to nothing", () => {
  it.each([
    [1, 10_000],
    [2, 20_000],
    [4, 80_000],
    [9, 2_560_000],
    [10, 3_600_000],
    [1000, 3_600_000],
  ])("is asked for again, after %d in a row, %d ms later", (inVain, waitMs) => {
    for (const end of [BUSY, FAILED]) {
      expect(planAfter(end, inVain, waitMs - 500)).toMatchObject({ kind: "hold", nextEligibleMs: NOW_MS + 500 });
      expect(planAfter(end, inVain, waitMs)).toMatchObject({ kind: "shrink" });
    }
  });

  it("holds as FilesystemBusy with the agent's words where somebody else was at work", () => {
    expect(planAfter(BUSY, 1, 500)).toMatchObject({ reason: "FilesystemBusy", message: BUSY.message });
  });

  it("is counted until one ends otherwise, and each end once", () => {
    const registry = createVolumeRegistry();
    const tell = (second: number, end: object): number => {
      const time = new Date(NOW_MS + second * 1000).toISOString();
      const operation = { from: "4Gi", to: "2Gi", reached: "4Gi", epoch: 1, decidedAt: time, startedAt: time };
      const lastOperation = {
        kind: "Shrink" as const,
        ...operation,
        endedAt: time,
        outcome: "Failed" as const,
        ...end,
      };
      registry.layoutSeen(buildLayout({ status: reported("4Gi", { lastOperation }) }), {
        nowMs: NOW_MS,
        monotonicMs: 172_800_000,
      });
      return registry.get(HANDLE).shrinksInVain;
    };
    expect([tell(1, FAILED), tell(1, FAILED), tell(2, BUSY)]).toEqual([1, 1, 2]);
    expect(tell(3, { kind: "Extend", outcome: "Succeeded" })).toBe(2);
    expect(tell(4, { outcome: "Cancelled", reason: "ShrinkCancelled" })).toBe(0);
  });
});
