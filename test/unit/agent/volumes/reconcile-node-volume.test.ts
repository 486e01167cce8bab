import { describe, expect, it } from "@jest/globals";
import { recordWithLayout } from "../../../../src/agent/gather/layout-record.ts";
import type { FoundMember } from "../../../../src/agent/storage/storage.ts";
import { reconcileNodeVolume } from "../../../../src/agent/volumes/reconcile-node-volume.ts";
import type { FilesystemLayout, FilesystemLayoutSpec } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { buildVolume } from "../../../builders/node-volume.ts";
import { reconcileEnvironment } from "../../../builders/reconcile-environment.ts";
import { buildSampledReading } from "../../../builders/sampled-reading.ts";
import { buildSpanLayout, buildSpanMember } from "../../../builders/span-layout.ts";

const NOW_MS = Date.parse("2026-01-01T00:00:00Z");
const layoutWith = (target: FilesystemLayoutSpec["target"]): FilesystemLayout => buildLayout({ target });
const first = layoutWith({ size: "2Gi", from: "1Gi", epoch: 1, decidedAt: "2026-01-01T00:00:00Z" });
const second = layoutWith({ size: "3Gi", from: "1Gi", epoch: 2, decidedAt: "2026-01-01T00:00:05Z" });

/** A mounted volume of 1 GiB; what happens at each step of a look may change the layout. */
function mountedVolume(during: Partial<Record<"adopt" | "save" | "measure", (set: () => void) => void>>) {
  const record = recordWithLayout(first, undefined);
  const volume = buildVolume({ ...record, epoch: 0, memberMade: true }, { sizeBytes: GIB });
  let layout = first;
  const started: string[] = [];
  const saved: number[] = [];
  const replace = (): void => {
    layout = second;
  };
  const environment = reconcileEnvironment(volume, () => layout, {
    storage: {
      sizeBytes: async () => {
        during.measure?.(replace);
        return GIB;
      },
    },
    records: {
      write: async ({ epoch }) => {
        during.save?.(replace);
        saved.push(epoch);
      },
    },
    staging: { adopt: async () => during.adopt?.(replace) },
    runner: { start: async (_state, { to }) => void started.push(to) },
    clock: { nowMs: () => NOW_MS, monotonicMs: () => 0 },
  });
  return { handle: volume.handle, environment, started, saved };
}

describe("a look at a volume", () => {
  it.each([
    ["has not changed", {}, "2Gi", 1],
    ["changed while the mount was looked for", { adopt: (set: () => void) => set() }, "3Gi", 2],
    ["changed while the record was written", { save: (set: () => void) => set() }, "3Gi", 2],
    ["changed while the member was measured", { measure: (set: () => void) => set() }, "3Gi", 2],
  ])("acts on the layout of now, which %s, and has recorded its epoch", async (_what, during, size, epoch) => {
    const { handle, environment, started, saved } = mountedVolume(during);
    await reconcileNodeVolume(environment, handle);
    expect(started).toEqual([size]);
    expect(saved.at(-1)).toBe(epoch);
  });

  it("decides nothing on a layout that changes during each measurement, and looks again soon", async () => {
    const volume = buildVolume(
      { ...recordWithLayout(first, undefined), epoch: 0, memberMade: true },
      { sizeBytes: GIB, unsettled: { problem: undefined }, reading: buildSampledReading() },
    );
    let measurements = 0;
    let layout = first;
    const done: string[] = [];
    const environment = reconcileEnvironment(volume, () => layout, {
      storage: {
        sizeBytes: async () => {
          measurements += 1;
          layout = structuredClone(layout);
          return GIB;
        },
        recover: async () => done.push("settled"),
      },
      runner: { start: async () => void done.push("started") },
      clock: { nowMs: () => NOW_MS, monotonicMs: () => 0 },
    });
    expect(await reconcileNodeVolume(environment, volume.handle)).toEqual({ againAfterMs: 1000 });
    expect(measurements).toBe(5);
    expect(done).toEqual([]);
  });

  it.each<[string, () => Promise<void>]>([
    ["never takes a member back that has left", async () => Promise.reject(new Error("the array is on fire"))],
    ["takes back each member that has left", async () => undefined],
  ])("has a spare brought where a driver %s", async (_what, releaseMembers) => {
    const members = [buildSpanMember("m0"), { ...buildSpanMember("m1"), state: "Removed" as const }];
    const layout = buildSpanLayout({ members: [...members, { ...buildSpanMember("m2"), state: "Spare" }] });
    const record = recordWithLayout(layout, undefined);
    const volume = buildVolume({ ...record, memberMade: true }, { sizeBytes: GIB });
    const found: FoundMember[] = [
      { name: "m0", state: "Present", sizeBytes: GIB },
      { name: "m1", state: "Leaving" },
    ];
    const prepared: string[] = [];
    const environment = reconcileEnvironment(volume, () => layout, {
      storage: { members: async () => found, sizeBytes: async () => GIB },
      staging: { releaseMembers, prepareSpares: async ({ handle }) => void prepared.push(handle) },
      clock: { nowMs: () => NOW_MS, monotonicMs: () => 0 },
    });
    await reconcileNodeVolume(environment, volume.handle).catch((error: unknown) =>
      expect(error).toMatchObject({ message: "the array is on fire" }),
    );
    expect(prepared).toEqual([volume.handle]);
  });
});
