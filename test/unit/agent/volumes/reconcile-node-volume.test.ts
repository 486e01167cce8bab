import { describe, expect, it } from "@jest/globals";
import { recordWithLayout } from "../../../../src/agent/gather/layout-record.ts";
import { type ReconcileEnvironment, reconcileVolume } from "../../../../src/agent/volumes/reconcile-node-volume.ts";
import { newVolumeState, volumeOf } from "../../../../src/agent/volumes/volume-state.ts";
import type { FilesystemLayout, FilesystemLayoutSpec } from "../../../../src/api/filesystem-layout.ts";
import { createLogger } from "../../../../src/process/log.ts";
import { GIB } from "../../../../src/units/quantity.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";

const NOW_MS = Date.parse("2026-01-01T00:00:00Z");
const layoutWith = (target: FilesystemLayoutSpec["target"]): FilesystemLayout => buildLayout({ target });
const first = layoutWith({ size: "2Gi", from: "1Gi", epoch: 1, decidedAt: "2026-01-01T00:00:00Z" });
const second = layoutWith({ size: "3Gi", from: "1Gi", epoch: 2, decidedAt: "2026-01-01T00:00:05Z" });

/** A mounted volume of 1 GiB; what happens at each step of a look may change the layout. */
function mountedVolume(during: Partial<Record<"adopt" | "save" | "measure", (set: () => void) => void>>) {
  const record = recordWithLayout(first, undefined);
  const mounted = { ...volumeOf(record), device: "/dev/loop9", mountPath: "/mnt" };
  const state = { ...newVolumeState({ ...record, epoch: 0, memberMade: true }, true), mounted, sizeBytes: GIB };
  let layout = first;
  const started: string[] = [];
  const saved: number[] = [];
  const replace = (): void => {
    layout = second;
  };
  const environment = {
    nodeName: "node-a",
    states: new Map([[state.handle, state]]),
    layouts: { get: () => layout },
    layoutsKnown: () => true,
    storage: {
      shrinksUnmounted: () => false,
      members: async () => [],
      sizeBytes: async () => {
        during.measure?.(replace);
        return GIB;
      },
    },
    records: {
      write: async ({ epoch }: { epoch: number }) => {
        during.save?.(replace);
        saved.push(epoch);
      },
    },
    staging: { adopt: async () => during.adopt?.(replace) },
    runner: { start: async (_state: unknown, { to }: { to: string }) => void started.push(to) },
    sampler: { setMinAvailable: () => undefined },
    reporter: { report: async () => undefined },
    clock: { nowMs: () => NOW_MS, monotonicMs: () => 0 },
    bootID: "boot-a",
    log: createLogger("test", "silent"),
  } as unknown as ReconcileEnvironment;
  return { handle: state.handle, environment, started, saved };
}

describe("a look at a volume", () => {
  it.each([
    ["has not changed", {}, "2Gi", 1],
    ["changed while the mount was looked for", { adopt: (set: () => void) => set() }, "3Gi", 2],
    ["changed while the record was written", { save: (set: () => void) => set() }, "3Gi", 2],
    ["changed while the member was measured", { measure: (set: () => void) => set() }, "3Gi", 2],
  ])("acts on the layout of now, which %s, and has recorded its epoch", async (_what, during, size, epoch) => {
    const { handle, environment, started, saved } = mountedVolume(during);
    await reconcileVolume(environment, handle);
    expect(started).toEqual([size]);
    expect(saved.at(-1)).toBe(epoch);
  });
});
