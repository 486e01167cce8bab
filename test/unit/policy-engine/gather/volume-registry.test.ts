import { describe, expect, it } from "@jest/globals";
import { Sample } from "../../../../src/contracts/gen/tidemark/samples/v1/samples.ts";
import type { FilesystemLayout, LastOperation } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB, MIB } from "../../../../src/contracts/quantities/quantity.ts";
import { createVolumeRegistry } from "../../../../src/policy-engine/gather/volume-registry.ts";

const HANDLE = "fs-0f3c7f1e-5a0e-4c5e-9d53-0b8c3d2f1a10";
const NOW_MS = Date.parse("2026-11-20T12:00:00Z");
/** The engine has run for two days. */
const NOW = { nowMs: NOW_MS, monotonicMs: 172_800_000 };
const HOUR_MS = 3_600_000;

function layoutAfter(last: Partial<LastOperation>): FilesystemLayout {
  return {
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "FilesystemLayout",
    metadata: { name: HANDLE },
    spec: {},
    status: {
      lastOperation: {
        kind: "Shrink",
        from: "4Gi",
        to: "2Gi",
        reached: "2Gi",
        outcome: "Succeeded",
        epoch: 1,
        startedAt: "2026-11-20T11:00:00.000Z",
        endedAt: "2026-11-20T11:00:05.000Z",
        ...last,
      },
    },
  };
}

describe("what the engine remembers of a volume", () => {
  it("counts an operation once, however often its layout is seen", () => {
    const registry = createVolumeRegistry();
    registry.layoutSeen(layoutAfter({}), NOW);
    registry.layoutSeen(layoutAfter({}), NOW);
    expect(registry.get(HANDLE).shrinks).toEqual([
      { stampMs: Date.parse("2026-11-20T11:00:05Z"), atMs: NOW.monotonicMs - HOUR_MS + 5000 },
    ]);
  });

  it("does not count a shrink that changed nothing", () => {
    const registry = createVolumeRegistry();
    registry.layoutSeen(layoutAfter({ outcome: "FloorReached", reached: "4Gi" }), NOW);
    expect(registry.get(HANDLE).shrinks).toEqual([]);
  });

  it("takes up after a restart what an earlier engine had counted, the last one not twice", () => {
    const registry = createVolumeRegistry();
    registry.layoutSeen(layoutAfter({}), NOW);
    const reported = { plan: "hold", reason: "CoolingDown", message: "" } as const;
    const shrunkAt = ["2026-11-20T10:00:00.000Z", "2026-11-20T11:00:05.000Z"];
    registry.recall(HANDLE, { ...reported, extendedAt: ["2026-11-20T09:00:00.000Z"], shrunkAt }, NOW);
    const { extends: extended, shrinks } = registry.get(HANDLE);
    expect(extended).toHaveLength(1);
    expect(shrinks.map(({ stampMs }) => new Date(stampMs).toISOString())).toEqual([
      "2026-11-20T10:00:00.000Z",
      "2026-11-20T11:00:05.000Z",
    ]);
  });

  it("counts a flap of an emergency, which its node has decided by itself, once for each shrink", () => {
    const registry = createVolumeRegistry();
    const sampledAtMs = NOW_MS;
    const figures = { capacityBytes: 4 * GIB, availableBytes: GIB };
    registry.sampled("node-a", Sample.fromPartial({ volumeHandle: HANDLE, sampledAtMs, ...figures }), NOW);
    const reported = { plan: "hold", reason: "CoolingDown", message: "", peakBeforeShrink: "3Gi" } as const;
    registry.recall(HANDLE, { ...reported, flappedAt: ["2026-11-07T10:00:00.000Z", "2026-11-06T10:00:00.000Z"] }, NOW);
    registry.layoutSeen(layoutAfter({}), NOW);
    for (const endedAt of ["2026-11-20T11:10:00.000Z", "2026-11-20T11:11:00.000Z"])
      registry.layoutSeen(layoutAfter({ kind: "Extend", emergency: true, from: "2Gi", reached: "3Gi", endedAt }), NOW);
    expect(registry.get(HANDLE).flaps.map(({ stampMs }) => new Date(stampMs).toISOString())).toEqual([
      "2026-11-07T10:00:00.000Z",
      "2026-11-20T11:10:00.000Z",
    ]);
  });

  it("takes no scrape of a running operation for use, also where it comes after the end, and none of its time for a gap", () => {
    const registry = createVolumeRegistry();
    const scrapeAt = (second: number, usedBytes: number, ageMs = 0): void => {
      const atMs = NOW.monotonicMs + second * 1000;
      const figures = { capacityBytes: GIB, availableBytes: GIB - usedBytes, inodesTotal: 0, inodesUsed: 0 };
      const at = { nowMs: NOW_MS + second * 1000, monotonicMs: atMs };
      registry.scraped(HANDLE, { sampledAtMs: at.nowMs - ageMs, ageMs, ...figures }, 15_000, at);
    };
    const seenAt = (second: number, operation: boolean): void => {
      const { status, ...layout } = layoutAfter({});
      const running = {
        kind: "Shrink" as const,
        from: "1Gi",
        to: "512Mi",
        epoch: 1,
        step: "resize",
        startedAt: "2026-11-20T12:00:50.000Z",
      };
      const at = { nowMs: NOW_MS + second * 1000, monotonicMs: NOW.monotonicMs + second * 1000 };
      registry.layoutSeen({ ...layout, status: { ...status, ...(operation && { operation: running }) } }, at);
    };
    for (let second = 0; second < 50; second += 15) scrapeAt(second, 100 * MIB);
    seenAt(55, true);
    scrapeAt(60, 900 * MIB);
    seenAt(70, false);
    scrapeAt(74, 900 * MIB, 9000);
    for (let second = 80; second < 300; second += 15) scrapeAt(second, 100 * MIB);
    const { history } = registry.get(HANDLE);
    expect(history.maxUsedBytes(280_000, NOW.monotonicMs + 290_000)).toBe(100 * MIB);
  });

  it("forgets changes of more than a day ago", () => {
    const registry = createVolumeRegistry();
    registry.layoutSeen(layoutAfter({ endedAt: "2026-11-19T11:00:00.000Z" }), NOW);
    registry.layoutSeen(layoutAfter({}), NOW);
    expect(registry.get(HANDLE).shrinks).toHaveLength(1);
  });

  it("takes no sample of a running operation for use, and none of its time for a gap", () => {
    const registry = createVolumeRegistry();
    const sampleAt = (second: number, usedBytes: number, operationInProgress = false): void => {
      const sampledAtMs = NOW_MS + second * 1000;
      const figures = { capacityBytes: GIB, availableBytes: GIB - usedBytes };
      const sample = Sample.fromPartial({ volumeHandle: HANDLE, sampledAtMs, operationInProgress, ...figures });
      registry.sampled("node-a", sample, { nowMs: sampledAtMs, monotonicMs: sampledAtMs });
    };
    for (let second = 0; second < 60; second += 1) {
      const isMoving = second >= 20 && second < 40;
      sampleAt(second, isMoving ? 900 * MIB : 300 * MIB, isMoving);
    }
    expect(registry.get(HANDLE).history.maxUsedBytes(59_000, NOW_MS + 59_000)).toBe(300 * MIB);
    sampleAt(60, 400 * MIB);
    expect(registry.get(HANDLE).history.maxUsedBytes(59_000, NOW_MS + 60_000)).toBe(400 * MIB);
  });
});
