import { describe, expect, it } from "@jest/globals";
import type { OperationRunner } from "../../../../src/agent/apply/run-operation.ts";
import { DEVICE_PATIENCE_MS, spendEmergency } from "../../../../src/agent/apply/spend-emergency.ts";
import { decideOperation } from "../../../../src/agent/decide/decide-operation.ts";
import { recordWithLayout } from "../../../../src/agent/gather/layout-record.ts";
import { factsOf, GROWTH_LOOK_MS, GROWTH_PAUSE_MS } from "../../../../src/agent/gather/operation-facts.ts";
import type { NodeVolume } from "../../../../src/agent/volumes/node-volume.ts";
import { reconcileNodeVolume } from "../../../../src/agent/volumes/reconcile-node-volume.ts";
import { isCancelledFor } from "../../../../src/agent/volumes/volume-state.ts";
import type { LastOperation, MemberSpec } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { createLogger } from "../../../../src/platform/process/log.ts";
import { buildRunning, buildVolume } from "../../../builders/node-volume.ts";
import { reconcileEnvironment } from "../../../builders/reconcile-environment.ts";
import { buildSampledReading } from "../../../builders/sampled-reading.ts";
import { buildSpanLayout, buildSpanMember } from "../../../builders/span-layout.ts";

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

interface Situation {
  readonly last?: Partial<LastOperation>;
  readonly others?: MemberSpec[];
  readonly deviceBytes?: number;
  readonly usedBytes?: number;
  readonly availableBytes?: number;
}

/** A span of one device of 1Gi, nearly full, with a grant of 2Gi, so long after that extend's end. */
function volumeAfter(
  sinceMs: number,
  { last, others = [], deviceBytes = GIB, usedBytes = GIB, availableBytes }: Situation,
): NodeVolume {
  const record = {
    ...recordWithLayout(buildSpanLayout({ members: [UNGROWN, ...others] }), undefined),
    grant: { size: "2Gi", minAvailable: "200Mi", expiry: "2026-01-02T00:00:00Z", epoch: 3 },
    lastOperation: { ...FAILED, ...last },
  };
  return buildVolume(record, {
    members: [{ name: "m0", state: "Present", sizeBytes: usedBytes, deviceBytes }],
    sizeBytes: GIB,
    operationEndedMs: ENDED_MS,
    reading: buildSampledReading({
      sampledAtMs: NOW_MS,
      takenMs: ENDED_MS + sinceMs,
      availableBytes: availableBytes ?? 100 * MIB,
    }),
  });
}

/** What its emergency asks for then. */
async function spentBy(volume: NodeVolume, sinceMs: number): Promise<string[]> {
  const spent: string[] = [];
  const runner: Pick<OperationRunner, "start"> = { start: async (_volume, { to }) => void spent.push(to) };
  const clock = { nowMs: () => NOW_MS, monotonicMs: () => ENDED_MS + sinceMs };
  await spendEmergency({ runner, clock, bootID: "boot-1", log: createLogger("test", "silent") }, volume);
  return spent;
}

function spentAfter(sinceMs: number, last: Partial<LastOperation> = {}, others: MemberSpec[] = []): Promise<string[]> {
  return spentBy(volumeAfter(sinceMs, { last, others }), sinceMs);
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

describe("a device that has followed late", () => {
  it("is no promise any more: an emergency takes it in at once", async () => {
    expect(await spentBy(volumeAfter(1, { deviceBytes: 2 * GIB }), 1)).toEqual(["2Gi"]);
  });

  it.each<[string, number, number, object | "done"]>([
    ["looked for again soon while the pause lasts", 1, GIB, { againAfterMs: GROWTH_LOOK_MS }],
    ["not looked for once it has come", 1, 2 * GIB, "done"],
    ["not looked for after the pause", GROWTH_PAUSE_MS, GIB, "done"],
  ])("is %s", async (_what, sinceMs, deviceBytes, outcome) => {
    const volume = volumeAfter(sinceMs, { deviceBytes });
    const layout = buildSpanLayout({ members: [UNGROWN], nodeName: "node-a" });
    const members = volume.state.mounted?.members ?? [];
    const environment = reconcileEnvironment(volume, () => layout, {
      storage: { members: async () => members },
      clock: { nowMs: () => NOW_MS, monotonicMs: () => ENDED_MS + sinceMs },
    });
    expect(await reconcileNodeVolume(environment, volume.handle)).toEqual(outcome);
  });
});

describe("the target that stands after an emergency has waited in vain", () => {
  const decidedAt = "2026-01-01T00:00:30Z";
  const layout = buildSpanLayout({
    members: [UNGROWN],
    target: { size: "2Gi", from: "1Gi", epoch: 3, decidedAt },
  });
  const decidedAfter = (sinceMs: number, deviceBytes = GIB) => {
    const clock = { nowMs: () => NOW_MS, monotonicMs: () => ENDED_MS + sinceMs };
    const { state } = volumeAfter(sinceMs, { last: { emergency: true }, deviceBytes });
    return decideOperation(factsOf({ layoutsKnown: () => true, clock }, state, layout));
  };

  it("does not wait for the same device again while the operator may add a member", () => {
    expect(decidedAfter(1)).toMatchObject({ act: "Nothing", reason: "WaitingForMember" });
    expect(decidedAfter(GROWTH_PAUSE_MS)).toMatchObject({ act: "Start", kind: "Extend" });
  });

  it("takes in a device that has followed meanwhile", () => {
    expect(decidedAfter(1, 2 * GIB)).toMatchObject({ act: "Start", kind: "Extend", toBytes: 2 * GIB });
  });
});

describe("an extend that waits for a device", () => {
  const waiting = (sinceMs: number, { emergency = false, ...situation }: Situation & { emergency?: boolean } = {}) => {
    const volume = volumeAfter(0, { last: { outcome: "Succeeded" }, ...situation });
    const operation = { ...buildRunning("Extend").operation, from: "1Gi", to: "2Gi", epoch: 3, emergency };
    volume.dispatch({ type: "OperationStarted", operation, startedMs: ENDED_MS });
    volume.dispatch({ type: "OperationRecorded" });
    const signal = volume.signalOf("running");
    return spentBy(volume, sinceMs).then((spent) => ({ spent, isGivenUp: isCancelledFor(signal, "DeviceLate") }));
  };

  it.each([true, false])("gives it up early while the disk fills (an emergency's: %s)", async (emergency) => {
    expect(await waiting(DEVICE_PATIENCE_MS - 1, { emergency })).toEqual({ spent: [], isGivenUp: false });
    expect(await waiting(DEVICE_PATIENCE_MS, { emergency })).toEqual({ spent: [], isGivenUp: true });
  });

  it("gives it up early, too, where the driver refuses and the device has the size", async () => {
    const { isGivenUp } = await waiting(DEVICE_PATIENCE_MS, { deviceBytes: 2 * GIB });
    expect(isGivenUp).toBe(true);
  });

  it("waits on while there is room", async () => {
    const { isGivenUp } = await waiting(DEVICE_PATIENCE_MS, { availableBytes: 300 * MIB });
    expect(isGivenUp).toBe(false);
  });

  it("is left alone where no member is to grow", async () => {
    const { isGivenUp } = await waiting(DEVICE_PATIENCE_MS, { deviceBytes: 2 * GIB, usedBytes: 2 * GIB });
    expect(isGivenUp).toBe(false);
  });
});
