import { describe, expect, it } from "@jest/globals";
import { settleSize } from "../../../../src/agent/apply/settle-size.ts";
import { recordWithLayout } from "../../../../src/agent/gather/layout-record.ts";
import type { Volume } from "../../../../src/agent/storage/storage.ts";
import { GIB } from "../../../../src/contracts/quantities/quantity.ts";
import { buildLayout } from "../../../builders/filesystem-layout.ts";
import { buildMount, buildVolume, type VolumeChange } from "../../../builders/node-volume.ts";
import { buildSampledReading } from "../../../builders/sampled-reading.ts";
import { buildSpanLayout, buildSpanMember } from "../../../builders/span-layout.ts";

const record = recordWithLayout(buildLayout(), undefined);
const reading = buildSampledReading();
const unsettled = (change: VolumeChange = {}) =>
  buildVolume(record, { reading, unsettled: { problem: undefined }, ...change });

describe("a member and its filesystem that may be of two sizes", () => {
  it("are of one size once recovered", async () => {
    const volume = unsettled({ unsettled: { problem: "a balance runs" } });
    expect(await settleSize({ recover: async () => GIB }, volume)).toBe(true);
    expect(volume.state).toMatchObject({ unsettled: undefined });
  });

  it("stay so, with the reason, while they cannot be recovered", async () => {
    const volume = unsettled();
    const recovering = settleSize({ recover: () => Promise.reject(new Error("a balance runs")) }, volume);
    await expect(recovering).rejects.toThrow("a balance runs");
    expect(volume.state).toMatchObject({ unsettled: { problem: "a balance runs" } });
  });

  it("are not known to be of one size where they were unmounted, and mounted anew, meanwhile", async () => {
    const volume = unsettled();
    const recover = async (): Promise<number> => {
      volume.dispatch({ type: "Unmounted" });
      volume.dispatch({ type: "Mounted", volume: buildMount(record) });
      return GIB;
    };
    expect(await settleSize({ recover }, volume)).toBe(false);
    expect(volume.state.unsettled).toBeDefined();
  });

  it("are those of now: a span may have more of them than when it was mounted", async () => {
    const before = recordWithLayout(buildSpanLayout(), undefined);
    const now = recordWithLayout(
      buildSpanLayout({ members: [buildSpanMember("m0"), buildSpanMember("m1")] }),
      undefined,
    );
    const volume = unsettled({ record: now, mounted: buildMount(before) });
    const recovered: Volume[] = [];
    await settleSize({ recover: async (one) => recovered.push(one) }, volume);
    expect(recovered).toEqual([buildMount(now)]);
  });

  it.each<[string, VolumeChange, boolean]>([
    ["the filesystem does not answer", { hung: true }, false],
    ["nobody knows yet whether it answers", { reading: undefined }, false],
    ["it is not mounted", { mounted: undefined }, true],
    ["the filesystem is read-only", { readOnlySinceMs: 1 }, false],
    ["it is being unmounted", { closing: true }, true],
    ["they are known to be of one size", { unsettled: undefined }, true],
  ])("are not touched while %s", async (_when, change, mayDecide) => {
    const touched = () => Promise.reject(new Error("it was touched"));
    expect(await settleSize({ recover: touched }, unsettled(change))).toBe(mayDecide);
  });
});
