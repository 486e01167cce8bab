// What a merge is refused for, before anything is asked of LVM: tests of what LVM does with it are in the virtual machine.
import { describe, expect, it } from "@jest/globals";
import type { ReportedVolume } from "../../../../src/lvmd/lvm/report.ts";
import { mergeSnapshot } from "../../../../src/lvmd/volumes/snapshots.ts";
import { hostWithReport } from "../host-with-report.ts";
import { deviceClass, GIB, groupOf, volume } from "../lvm-facts.ts";

const thin = deviceClass({ thinPool: { name: "pool", overprovisionRatio: 4 } });
const POOL = volume({ name: "pool", attr: "twi-aotz--", sizeBytes: 4 * GIB });
const merge = (ofVolume: Partial<ReportedVolume>, ofSnapshot: Partial<ReportedVolume>) => {
  const both = [
    volume({ name: "v", pool: "pool", attr: "Vwi-a-tz--", ...ofVolume }),
    volume({ name: "s", pool: "pool", attr: "Vri-a-tz-k", origin: "v", ...ofSnapshot }),
  ];
  const host = hostWithReport(thin, [groupOf([GIB], [POOL, ...both])]);
  return mergeSnapshot(host, { deviceClass: "class", name: "v", snapshot: "s" });
};

describe("a snapshot is not merged", () => {
  it.each<[string, Partial<ReportedVolume>, Partial<ReportedVolume>, string]>([
    ["while the volume is in use", { attr: "Vwi-aotz--" }, {}, "volume v is in use"],
    ["while the snapshot itself is in use", {}, { attr: "Vri-aotz-k" }, "volume s is in use"],
    ["into a volume of another size", { sizeBytes: 2 * GIB }, {}, "and its snapshot s"],
    ["into a volume that it is not one of", {}, { origin: "w" }, "volume s is not a snapshot of v"],
  ])("%s", async (_when, ofVolume, ofSnapshot, message) => {
    await expect(merge(ofVolume, ofSnapshot)).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringContaining(message),
    });
  });
});
