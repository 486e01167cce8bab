import { describe, expect, it } from "@jest/globals";
import { settleSize } from "../../../../src/agent/apply/settle-size.ts";
import { recordWithLayout } from "../../../../src/agent/gather/layout-record.ts";
import type { Volume } from "../../../../src/agent/storage/storage.ts";
import { newVolumeState, type VolumeState, volumeOf } from "../../../../src/agent/volumes/volume-state.ts";
import { GIB } from "../../../../src/units/quantity.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { buildSampledReading } from "../../../builders/sampled-reading.ts";
import { buildSpanLayout, buildSpanMember } from "../../../builders/span-layout.ts";

const record = recordWithLayout(buildLayout(), undefined);
const mounted = { ...volumeOf(record), device: "/dev/loop9", mountPath: "/mnt" };
const reading = buildSampledReading();
const unsettled = (change: Partial<VolumeState> = {}): VolumeState => ({
  ...newVolumeState(record, true),
  ...{ mounted, reading, unsettled: true },
  ...change,
});

describe("a member and its filesystem that may be of two sizes", () => {
  it("are of one size once recovered", async () => {
    const state = unsettled({ settleProblem: "a balance runs" });
    expect(await settleSize({ recover: async () => GIB }, state)).toBe(true);
    expect(state).toMatchObject({ unsettled: false, settleProblem: undefined });
  });

  it("stay so, with the reason, while they cannot be recovered", async () => {
    const state = unsettled();
    const recovering = settleSize({ recover: () => Promise.reject(new Error("a balance runs")) }, state);
    await expect(recovering).rejects.toThrow("a balance runs");
    expect(state).toMatchObject({ unsettled: true, settleProblem: "a balance runs" });
  });

  it("are not known to be of one size where they were unmounted, and mounted anew, meanwhile", async () => {
    const state = unsettled();
    const recover = async (): Promise<number> => {
      state.mounted = { ...mounted };
      return GIB;
    };
    expect(await settleSize({ recover }, state)).toBe(false);
    expect(state.unsettled).toBe(true);
  });

  it("are those of now: a span may have more of them than when it was mounted", async () => {
    const before = recordWithLayout(buildSpanLayout(), undefined);
    const now = recordWithLayout(
      buildSpanLayout({ members: [buildSpanMember("m0"), buildSpanMember("m1")] }),
      undefined,
    );
    const state = unsettled({ record: now, mounted: { ...mounted, ...volumeOf(before) } });
    const recovered: Volume[] = [];
    await settleSize({ recover: async (volume) => recovered.push(volume) }, state);
    expect(recovered).toEqual([{ ...volumeOf(now), device: "/dev/loop9", mountPath: "/mnt" }]);
  });

  it.each<[string, Partial<VolumeState>, boolean]>([
    ["the filesystem does not answer", { hung: true }, false],
    ["nobody knows yet whether it answers", { reading: undefined }, false],
    ["it is not mounted", { mounted: undefined }, true],
    ["the filesystem is read-only", { readOnlySinceMs: 1 }, false],
    ["it is being unmounted", { closing: true }, true],
    ["they are known to be of one size", { unsettled: false }, true],
  ])("are not touched while %s", async (_when, change, mayDecide) => {
    const touched = () => Promise.reject(new Error("it was touched"));
    expect(await settleSize({ recover: touched }, unsettled(change))).toBe(mayDecide);
  });
});
