// The time that names a target, with clocks that were wrong: whatever has ended on a node, what is decided next comes after it.
import { describe, expect, it } from "@jest/globals";
import { decideOperation } from "../../../../src/agent/decide/decide-operation.ts";
import { recordWithLayout, targetOf } from "../../../../src/agent/gather/layout-record.ts";
import { layoutStatus } from "../../../../src/agent/report/layout-status.ts";
import { newVolumeState } from "../../../../src/agent/volumes/volume-state.ts";
import { decisionTime } from "../../../../src/contracts/formulas/decision-order.ts";
import type { LastOperation } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";

const NOW_MS = Date.parse("2026-01-01T00:00:00Z");
const HOUR_MS = 3_600_000;
const at = (aheadMs: number): string => new Date(NOW_MS + aheadMs).toISOString();
const emergency: LastOperation = {
  ...{ kind: "Extend", outcome: "Succeeded", from: "1Gi", to: "2Gi", reached: "2Gi", epoch: 3, emergency: true },
  ...{ startedAt: at(-60_000), endedAt: at(-59_000) },
};

describe("the time of a decision", () => {
  it.each([HOUR_MS, 24 * HOUR_MS, -HOUR_MS, -24 * HOUR_MS])(
    "is after what ended on a node whose target was dated %d ms ahead, though an emergency came after it and all objects were made anew",
    (aheadMs) => {
      const record = {
        ...recordWithLayout(buildLayout(), undefined),
        ...{ memberMade: true, lastOperation: emergency, endedDecidedAt: at(aheadMs) },
      };
      const state = { ...newVolumeState(record, true), sizeBytes: 2 * GIB };
      const rebuilt = buildLayout();
      const told = { ...rebuilt, status: layoutStatus({ state, nodeName: "node-a", nowMs: NOW_MS, live: rebuilt }) };
      const decidedAt = decisionTime(NOW_MS, told);
      const target = targetOf(buildLayout({ target: { size: "4Gi", from: "2Gi", epoch: 3, decidedAt } }));
      expect(
        decideOperation({
          ...{
            mounted: true,
            readOnly: false,
            sizeBytes: 2 * GIB,
            layoutKnown: true,
            removalWanted: false,
            removed: false,
          },
          ...{ shrinksOnlyUnmounted: false, members: undefined, running: undefined, interrupted: undefined },
          ...{ target, highestEpoch: 3, endedDecidedAt: record.endedDecidedAt },
        }),
      ).toMatchObject({ act: "Start", kind: "Extend", toBytes: 4 * GIB });
    },
  );

  it("is now where nothing is known", () => {
    expect(decisionTime(NOW_MS, buildLayout())).toBe(at(0));
  });

  it("reaches the next node, too: what ended before an emergency is not carried out there again", () => {
    const moved = buildLayout({}, { lastOperation: emergency, endedDecidedAt: at(-HOUR_MS) });
    expect(recordWithLayout(moved, undefined).endedDecidedAt).toBe(at(-HOUR_MS));
  });
});
