import { describe, expect, it } from "@jest/globals";
import { createVolumeTrimmer } from "../../../../src/agent/apply/volume-trimmer.ts";
import { recordWithLayout } from "../../../../src/agent/gather/layout-record.ts";
import type { Storage } from "../../../../src/agent/storage/storage.ts";
import type { NodeRecord } from "../../../../src/agent/volumes/node-records.ts";
import type { FilesystemLayout } from "../../../../src/contracts/kinds/filesystem-layout.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { buildRunning, buildVolume, type VolumeChange } from "../../../builders/node-volume.ts";
import { createRecordingLog } from "../../../fakes/recording-log.ts";
import { eventually } from "../../../harness/wait-for.ts";

const HOUR_MS = 3_600_000;
const FIRST_MS = Date.parse("2030-01-01T00:00:00Z");

/** One mounted volume of a node, its trims wanted every hour. */
function node(
  layout: FilesystemLayout = buildLayout({ trim: { every: "1h" } }),
  record: NodeRecord = recordWithLayout(layout, undefined),
  change: VolumeChange = {},
) {
  const volume = buildVolume(record, change);
  const written: NodeRecord[] = [];
  const ends: [string, number][] = [];
  const told: string[] = [];
  let nowMs = FIRST_MS;
  let trims = 0;
  let trim: Storage["trim"] = async () => GIB;
  const trimmer = createVolumeTrimmer({
    nodeName: "node-a",
    volumes: new Map([[volume.handle, volume]]),
    layouts: { get: (handle) => (handle === layout.metadata.name ? layout : undefined) },
    storage: {
      trim: (volume, signal) => {
        trims += 1;
        return trim(volume, signal);
      },
    },
    records: { write: async (one) => void written.push(one) },
    metrics: { trimEnded: (outcome, bytes) => void ends.push([outcome, bytes]) },
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
    log: createRecordingLog().log,
    changed: (handle) => void told.push(handle),
  });
  return {
    ...{ volume, written, ends, told, trimmer },
    trims: () => trims,
    trimsBy: (other: Storage["trim"]) => {
      trim = other;
    },
    lookAfter: async (passedMs: number) => {
      nowMs += passedMs;
      await trimmer.look();
    },
  };
}

/** Its trims have been wanted since the first moment. */
function wantedRecord(): NodeRecord {
  return { ...recordWithLayout(buildLayout(), undefined), trimWantedAt: new Date(FIRST_MS).toISOString() };
}

describe("a node's trims", () => {
  it("begin within their interval, and what one gave back is recorded, told and counted", async () => {
    const { volume, written, ends, told, trims, lookAfter } = node();
    await lookAfter(0);
    expect(written.at(-1)?.trimWantedAt).toBe("2030-01-01T00:00:00.000Z");
    await lookAfter(HOUR_MS);
    expect(trims()).toBe(1);
    const lastTrim = { endedAt: "2030-01-01T01:00:00.000Z", trimmed: "1Gi" };
    expect(written.at(-1)?.lastTrim).toEqual(lastTrim);
    expect(volume.state.trim).toBeUndefined();
    expect(ends).toEqual([["Trimmed", GIB]]);
    expect(told).toEqual([volume.handle]);
  });

  it("are counted from the recorded last one by an agent that is started again", async () => {
    const before = node();
    await before.lookAfter(0);
    await before.lookAfter(HOUR_MS);
    const after = node(undefined, before.written.at(-1));
    await after.lookAfter(1.5 * HOUR_MS);
    expect(after.trims()).toBe(0);
    await after.lookAfter(HOUR_MS);
    expect(after.trims()).toBe(1);
  });

  it("are counted from the layout where the node's record was lost", () => {
    const lastTrim = { endedAt: "2030-01-01T01:00:00.000Z", trimmed: "1Gi" };
    expect(recordWithLayout(buildLayout({ trim: { every: "1h" } }, { lastTrim }), undefined).lastTrim).toEqual(
      lastTrim,
    );
  });

  it.each<[string, VolumeChange]>([
    ["an operation runs on it", { running: buildRunning("Shrink") }],
    ["it is not mounted", { mounted: undefined }],
    ["it is being unmounted", { closing: true }],
    ["it does not answer", { hung: true }],
    ["its record cannot be written", { recordProblem: "no room" }],
  ])("leave a volume alone while %s", async (_case, change) => {
    const { trims, lookAfter } = node(undefined, wantedRecord(), change);
    await lookAfter(5 * HOUR_MS);
    expect(trims()).toBe(0);
  });

  it("leave a volume alone on which an interrupted operation is to be resumed", async () => {
    const { trims, lookAfter } = node(undefined, { ...wantedRecord(), operation: buildRunning("Shrink").operation });
    await lookAfter(5 * HOUR_MS);
    expect(trims()).toBe(0);
  });

  it("come to one that has waited as long, and is free", async () => {
    const { trims, lookAfter } = node(undefined, wantedRecord());
    await lookAfter(5 * HOUR_MS);
    expect(trims()).toBe(1);
  });

  it.each<[string, FilesystemLayout]>([
    ["whose policy wants none", buildLayout()],
    ["that another node has", buildLayout({ trim: { every: "1h" }, nodeName: "node-b" })],
  ])("leave a volume alone %s", async (_case, layout) => {
    const { trims, written, lookAfter } = node(layout);
    await lookAfter(0);
    await lookAfter(5 * HOUR_MS);
    expect([trims(), written]).toEqual([0, []]);
  });

  it("that gave way are no last trim, and are tried again after a while", async () => {
    const { volume, ends, trims, trimsBy, lookAfter } = node();
    await lookAfter(0);
    trimsBy(async () => undefined);
    await lookAfter(HOUR_MS);
    expect(volume.state.record.lastTrim).toBeUndefined();
    await lookAfter(60_000);
    expect(trims()).toBe(1);
    trimsBy(async () => GIB);
    await lookAfter(600_000);
    expect(ends).toEqual([
      ["GaveWay", 0],
      ["Trimmed", GIB],
    ]);
  });

  it("that fail say why, and wait for their next time", async () => {
    const { volume, ends, trims, trimsBy, lookAfter } = node();
    await lookAfter(0);
    trimsBy(() => Promise.reject(new Error("the discard operation is not supported")));
    await lookAfter(HOUR_MS);
    expect(volume.state.record.lastTrim).toMatchObject({
      trimmed: "0",
      message: "the discard operation is not supported",
    });
    await lookAfter(0.5 * HOUR_MS);
    expect([trims(), ends]).toEqual([1, [["Failed", 0]]]);
  });

  it("are one at a time, and one ends where it is when the agent does", async () => {
    const { volume, trims, trimsBy, lookAfter, trimmer } = node();
    await lookAfter(0);
    trimsBy(
      (_volume, signal) =>
        new Promise((resolve) => {
          signal?.addEventListener("abort", () => resolve(undefined));
        }),
    );
    const looks = [lookAfter(HOUR_MS), lookAfter(HOUR_MS)];
    await eventually("the trim to begin", () => volume.state.trim !== undefined);
    await trimmer.stop();
    await Promise.all(looks);
    expect(trims()).toBe(1);
    expect(volume.state.record.lastTrim).toBeUndefined();
  });
});
