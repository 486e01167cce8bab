// When a node looks whether its spans' data can be moved, and what becomes of what it finds.
import { describe, expect, it } from "@jest/globals";
import { recordWithLayout } from "../../../../src/agent/gather/layout-record.ts";
import { createMovingWatch } from "../../../../src/agent/gather/mount-watches.ts";
import { layoutStatus } from "../../../../src/agent/report/layout-status.ts";
import type { FilesystemLayout } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { buildMount, buildRunning, buildVolume, mountOf, type VolumeChange } from "../../../builders/node-volume.ts";
import { buildSpanLayout } from "../../../builders/span-layout.ts";
import { createRecordingLog } from "../../../fakes/recording-log.ts";

const SNAPSHOTS = "it has 3 snapshots";
const MINUTE_MS = 60_000;

/** One mounted volume, in which its user makes and deletes snapshots. */
function node(layout: FilesystemLayout = buildSpanLayout({}, { immovable: "said before" }), change: VolumeChange = {}) {
  const record = recordWithLayout(layout, undefined);
  const volume = buildVolume(record, change);
  const world = { immovable: undefined as string | undefined, fails: false, looks: 0, nowMs: 0 };
  const told: string[] = [];
  const watch = createMovingWatch({
    volumes: new Map([[volume.handle, volume]]),
    storage: {
      immovable: async () => {
        world.looks += 1;
        if (world.fails) throw new Error("btrfs does not answer");
        return world.immovable;
      },
    },
    clock: { monotonicMs: () => world.nowMs },
    log: createRecordingLog().log,
    changed: (handle) => void told.push(handle),
  });
  const said = (): string | undefined =>
    layoutStatus({ state: volume.state, nodeName: "node-a", nowMs: 0, live: layout }).immovable;
  const lookAfter = (passedMs: number): Promise<void> => {
    world.nowMs += passedMs;
    return watch.look();
  };
  const mount = (): void => volume.dispatch({ type: "Mounted", volume: buildMount(record) });
  return { volume, world, told, said, lookAfter, mount };
}

describe("whether a span's data can be moved", () => {
  it("is what was said last until somebody has looked at this mount", async () => {
    const { volume, said, lookAfter, mount, world } = node();
    expect(said()).toBe("said before");
    await lookAfter(0);
    expect(said()).toBeUndefined();
    volume.dispatch({ type: "Unmounted" });
    expect(said()).toBe("said before");
    world.immovable = SNAPSHOTS;
    mount();
    expect(said()).toBe("said before");
    await lookAfter(0);
    expect(said()).toBe(SNAPSHOTS);
  });

  it("is looked at every five minutes, and every minute while it cannot, so that it is withdrawn soon", async () => {
    const { world, told, said, lookAfter } = node();
    await lookAfter(0);
    world.immovable = SNAPSHOTS;
    await lookAfter(5 * MINUTE_MS - 1);
    expect([world.looks, said()]).toEqual([1, undefined]);
    await lookAfter(1);
    expect([world.looks, said()]).toEqual([2, SNAPSHOTS]);
    world.immovable = undefined;
    await lookAfter(MINUTE_MS - 1);
    expect([world.looks, said()]).toEqual([2, SNAPSHOTS]);
    await lookAfter(1);
    expect([world.looks, said()]).toEqual([3, undefined]);
    // Each time what its members hold is measured again.
    expect(told).toHaveLength(3);
  });

  it("stands while nobody can say, and what its members hold is measured all the same", async () => {
    const { world, told, said, lookAfter } = node();
    world.immovable = SNAPSHOTS;
    await lookAfter(0);
    await lookAfter(MINUTE_MS);
    world.fails = true;
    await lookAfter(MINUTE_MS);
    expect([world.looks, told.length, said()]).toEqual([3, 3, SNAPSHOTS]);
  });

  it("is not what a look found that a shrink has overtaken", async () => {
    const { volume, world, said, lookAfter } = node();
    const looking = lookAfter(0);
    volume.dispatch({ type: "MovingChecked", volume: mountOf(volume), immovable: SNAPSHOTS });
    await looking;
    expect([world.looks, said()]).toEqual([1, SNAPSHOTS]);
  });

  it.each<[string, VolumeChange, FilesystemLayout]>([
    ["on which an operation runs", { running: buildRunning("Shrink") }, buildSpanLayout()],
    ["that is mounted nowhere", { mounted: undefined }, buildSpanLayout()],
    ["that is being unmounted", { closing: true }, buildSpanLayout()],
    ["that does not answer", { hung: true }, buildSpanLayout()],
    ["of one member that stays", {}, buildLayout()],
  ])("is not looked at in a volume %s", async (_what, change, layout) => {
    const { world, lookAfter } = node(layout, change);
    await lookAfter(0);
    expect(world.looks).toBe(0);
  });
});
