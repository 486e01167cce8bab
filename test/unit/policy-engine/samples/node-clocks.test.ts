import { describe, expect, it } from "@jest/globals";
import { createNodeClocks } from "../../../../src/policy-engine/samples/node-clocks.ts";
import { NOW_MS } from "../../../builders/facts.ts";
import { createRecordingLog } from "../../../fakes/recording-log.ts";

const HOUR_MS = 3_600_000;

/** One node that sends a batch every second. */
function listening(isLeader = true) {
  const told: string[] = [];
  const record = (
    object: { kind: string; metadata: { name: string } },
    type: string,
    reason: string,
    message: string,
  ) => void told.push(`${object.kind} ${object.metadata.name} ${type} ${reason}: ${message}`);
  const clocks = createNodeClocks({ record }, () => isLeader, createRecordingLog().log);
  let second = 0;
  const hear = (seconds: number, aheadMs: number, nodeName = "node-a"): void => {
    for (const end = second + seconds; second < end; second += 1) {
      const nowMs = NOW_MS + second * 1000;
      clocks.heard(nodeName, nowMs + aheadMs, { nowMs, monotonicMs: second * 1000 });
    }
  };
  return { told, hear };
}

describe("a node's clock that differs from the engine's", () => {
  it.each([
    [HOUR_MS, "is 1h ahead of"],
    [-HOUR_MS, "is 1h behind"],
    [24 * HOUR_MS, "is 1d ahead of"],
    [-24 * HOUR_MS, "is 1d behind"],
    [6000, "is 6s ahead of"],
    [-11_000, "is 11s behind"],
  ])("by %d ms is told of once, on its NodeStorage, with node and difference", (aheadMs, text) => {
    const { told, hear } = listening();
    hear(600, aheadMs);
    expect(told).toEqual([
      `NodeStorage node-a Warning ClockDiffers: Set the clock of the node right (chrony, NTP): it ${text} the policy-engine's. ` +
        "Until then nothing on it shrinks; extends go on",
    ]);
  });

  it("is told of again when the difference changes, or is there again after it was gone", () => {
    const { told, hear } = listening();
    hear(20, HOUR_MS);
    hear(20, 2 * HOUR_MS);
    expect(told).toHaveLength(2);
    hear(5, 0);
    hear(20, 2 * HOUR_MS);
    expect(told).toHaveLength(3);
  });

  it("is told of for each node", () => {
    const { told, hear } = listening();
    hear(20, HOUR_MS);
    hear(20, HOUR_MS, "node-b");
    expect(told.map((one) => one.split(" ")[1])).toEqual(["node-a", "node-b"]);
  });

  it.each([
    ["is small", 600, 4000],
    ["is behind by no more than a network delays", 600, -9000],
    ["is gone within 10 s, as a stream that was held up makes it look", 9, -30_000],
  ])("is not told of where it %s", (_what, seconds, aheadMs) => {
    const { told, hear } = listening();
    hear(seconds, aheadMs);
    hear(60, 0);
    expect(told).toEqual([]);
  });

  it("is not told of by an engine that only watches", () => {
    const { told, hear } = listening(false);
    hear(60, HOUR_MS);
    expect(told).toEqual([]);
  });
});
