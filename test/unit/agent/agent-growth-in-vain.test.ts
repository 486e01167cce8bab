import { describe, expect, it } from "@jest/globals";
import { pino } from "pino";
import { recordWithLayout } from "../../../src/agent/layout-record.ts";
import type { OperationRunner } from "../../../src/agent/run-operation.ts";
import { GROWTH_PAUSE_MS, spendEmergency } from "../../../src/agent/spend-emergency.ts";
import { newVolumeState, type VolumeState, volumeOf } from "../../../src/agent/volume-state.ts";
import type { LastOperation, MemberSpec } from "../../../src/api/filesystem-layout.ts";
import { GIB, MIB } from "../../../src/units/quantity.ts";
import { buildSampledReading } from "../../builders/sampled-reading.ts";
import { buildSpanLayout, buildSpanMember } from "../../builders/span-layout.ts";

const NOW_MS = Date.parse("2026-01-01T00:01:00Z");
const ENDED_MS = 100_000;
const FAILED: LastOperation = {
  kind: "Extend",
  from: "1Gi",
  to: "2Gi",
  epoch: 3,
  startedAt: "2026-01-01T00:00:00Z",
  outcome: "Failed",
  reason: "WaitingForMember",
  reached: "1Gi",
  endedAt: "2026-01-01T00:01:00Z",
};
/** Its driver says 2Gi; the device has 1Gi. */
const UNGROWN = buildSpanMember("m0", { capacity: "2Gi" }, { size: "2Gi" });

/** A span of one device of 1Gi, nearly full, with a grant of 2Gi; what its emergency asks for so long after that extend's end. */
async function spentAfter(
  sinceMs: number,
  last: Partial<LastOperation> = {},
  others: MemberSpec[] = [],
): Promise<string[]> {
  const spent: string[] = [];
  const runner: OperationRunner = {
    start: async (_state, { to }) => void spent.push(to),
    shrinkUnmounted: async () => undefined,
    cancelAndWait: async () => undefined,
    abandon: async () => undefined,
  };
  const record = {
    ...recordWithLayout(buildSpanLayout({ members: [UNGROWN, ...others] }), undefined),
    grant: { size: "2Gi", minAvailable: "200Mi", expiry: "2026-01-02T00:00:00Z", epoch: 3 },
    lastOperation: { ...FAILED, ...last },
  };
  const monotonicMs = ENDED_MS + sinceMs;
  const state: VolumeState = {
    ...newVolumeState(record, true),
    mounted: { ...volumeOf(record), device: "/dev/loop9", mountPath: "/mnt" },
    members: [{ name: "m0", state: "Present", sizeBytes: GIB }],
    sizeBytes: GIB,
    operationEndedMs: ENDED_MS,
    reading: buildSampledReading({ sampledAtMs: NOW_MS, takenMs: monotonicMs, availableBytes: 100 * MIB }),
  };
  const clock = { nowMs: () => NOW_MS, monotonicMs: () => monotonicMs };
  await spendEmergency({ runner, clock, bootID: "boot-1", log: pino({ level: "silent" }) }, state);
  return spent;
}

describe("an emergency after an extend has waited in vain for a device", () => {
  it("does not wait for the same device again while the operator may add a member", async () => {
    expect(await spentAfter(1)).toEqual([]);
    expect(await spentAfter(GROWTH_PAUSE_MS - 1)).toEqual([]);
  });

  it("does not wait for it either after an emergency that did", async () => {
    expect(await spentAfter(1, { emergency: true })).toEqual([]);
  });

  it("takes in a member that has come instead, at once", async () => {
    expect(await spentAfter(1, {}, [buildSpanMember("m1")])).toEqual(["2Gi"]);
  });

  it("tries the device again where no member has come for a while", async () => {
    expect(await spentAfter(GROWTH_PAUSE_MS)).toEqual(["2Gi"]);
  });

  it("is met at once where the extend failed for another reason", async () => {
    expect(await spentAfter(1, { reason: "ReadOnly" })).toEqual(["2Gi"]);
  });
});
