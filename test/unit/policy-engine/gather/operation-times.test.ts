import { describe, expect, it } from "@jest/globals";
import type { ReceivedReading } from "../../../../src/policy-engine/facts/facts.ts";
import { endInTime } from "../../../../src/policy-engine/gather/operation-times.ts";

const ENDED_MS = Date.parse("2026-11-20T12:00:00.250Z");
const END = { endedAt: "2026-11-20T12:00:00.250Z", seenAtMs: 50_000 };
const HOUR_MS = 3_600_000;
const stamp = (atMs: number, afterEndMs = 0) => ({ sampledAtMs: ENDED_MS + atMs, afterEndMs });
const OF_PROMETHEUS = { sampledAtMs: ENDED_MS, afterEndMs: undefined };

describe("the end of an operation, beside a reading", () => {
  it.each<[string, Pick<ReceivedReading, "sampledAtMs" | "afterEndMs">, number, "before" | "not before"]>([
    ["is before one that its node names it to, and that came first", stamp(1, ENDED_MS), 40_000, "before"],
    [
      "is before one that its node names it to, whose clock was set back an hour since",
      stamp(-HOUR_MS, ENDED_MS),
      60_000,
      "before",
    ],
    ["is before one that its node has dated later", stamp(1), 60_000, "before"],
    ["is before one that its node has dated later, whichever came first", stamp(1), 40_000, "before"],
    ["is not before one of the same instant", stamp(0), 60_000, "not before"],
    ["is not before one that its node has dated earlier, and that came late", stamp(-1), 60_000, "not before"],
    ["is not before one that came after an older operation", stamp(-1, ENDED_MS - 5000), 60_000, "not before"],
    ["is before one that another clock has dated, and that came later", OF_PROMETHEUS, 60_000, "before"],
    ["is not before one that another clock has dated, and that came first", OF_PROMETHEUS, 50_000, "not before"],
  ])("%s", (_what, dated, takenMs, order) => {
    const endedAtMs = endInTime(END, { takenMs, ...dated });
    expect(takenMs > endedAtMs ? "before" : "not before").toBe(order);
  });

  it("is never later than it was heard where the reading came after it", () => {
    expect(endInTime(END, { takenMs: 60_000, ...stamp(1, ENDED_MS) })).toBe(50_000);
  });

  it("is when it was heard where there is no reading", () => {
    expect(endInTime(END, undefined)).toBe(50_000);
  });

  it("is not before a reading where its node gives it no time", () => {
    expect(endInTime({ ...END, endedAt: "soon" }, { takenMs: 60_000, ...stamp(1) })).toBe(60_000);
  });
});
