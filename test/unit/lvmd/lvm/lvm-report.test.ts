import { describe, expect, it } from "@jest/globals";
import { classState, findVolume, volumesOf } from "../../../../src/lvmd/classes/class-state.ts";
import { LvmError } from "../../../../src/lvmd/lvm/lvm-error.ts";
import {
  type OwnChange,
  parseReport,
  type Report,
  type ReportedVolume,
  withOwnChange,
} from "../../../../src/lvmd/lvm/report.ts";
import { isUnusable } from "../../../../src/lvmd/volumes/volume-host.ts";
import { deviceClass, MIB } from "../lvm-facts.ts";

/** As LVM 2.03.16 writes it; shortened. */
const JSON_REPORT = `
  {
      "report": [
          {
              "vg": [
                  {"vg_name":"kv", "vg_size":"2143289344", "vg_free":"1061158912", "vg_extent_size":"4194304", "vg_attr":"wz--n-", "vg_missing_pv_count":"0"}
              ]
              ,
              "pv": [
                  {"pv_name":"/dev/ubde", "pv_free":"1061158912"}
              ]
              ,
              "lv": [
                  {"lv_name":"pool", "lv_uuid":"3XBYjM", "lv_size":"1073741824", "origin_size":"", "lv_path":"", "lv_kernel_major":"254", "lv_kernel_minor":"2", "lv_tags":"", "lv_attr":"twi-aotz--", "origin":"", "data_percent":"12.34", "metadata_percent":"11.04", "pool_lv":"", "lv_metadata_size":"4194304"},
                  {"lv_name":"t1", "lv_uuid":"UTnD1K", "lv_size":"314572800", "origin_size":"", "lv_path":"/dev/kv/t1", "lv_kernel_major":"254", "lv_kernel_minor":"4", "lv_tags":"a=b,c", "lv_attr":"Vwi-a-tz--", "origin":"", "data_percent":"1.50", "metadata_percent":"", "pool_lv":"pool", "lv_metadata_size":""},
                  {"lv_name":"off", "lv_uuid":"1hM2Hn", "lv_size":"104857600", "origin_size":"", "lv_path":"/dev/kv/off", "lv_kernel_major":"-1", "lv_kernel_minor":"-1", "lv_tags":"", "lv_attr":"-wi-------", "origin":"", "data_percent":"", "metadata_percent":"", "pool_lv":"", "lv_metadata_size":""},
                  {"lv_name":"snap", "lv_uuid":"snapid", "lv_size":"4194304", "origin_size":"104857600", "lv_path":"/dev/kv/snap", "lv_kernel_major":"254", "lv_kernel_minor":"9", "lv_tags":"", "lv_attr":"swi-a-s---", "origin":"off", "data_percent":"0.00", "metadata_percent":"", "pool_lv":"", "lv_metadata_size":""}
              ]
              ,
              "pvseg": [
              ]
              ,
              "seg": [
                  {"lv_uuid":"1hM2Hn", "data_stripes":"2", "segtype":"striped", "chunk_size":"0"},
                  {"lv_uuid":"snapid", "data_stripes":"2", "segtype":"raid1", "chunk_size":"0"},
                  {"lv_uuid":"3XBYjM", "data_stripes":"1", "segtype":"thin-pool", "chunk_size":"65536"}
              ]
          }
      ]
  }
`;

describe("a report of LVM", () => {
  const report = parseReport(JSON_REPORT);
  const group = report.get("kv");

  it("tells groups, devices and volumes", () => {
    expect(group).toMatchObject({
      sizeBytes: 2143289344,
      freeBytes: 1061158912,
      extentBytes: 4 * MIB,
      missingDevices: 0,
    });
    expect(group?.devices).toEqual([{ path: "/dev/ubde", freeBytes: 1061158912 }]);
    expect(group?.volumes.get("t1")).toEqual({
      name: "t1",
      uuid: "UTnD1K",
      sizeBytes: 300 * MIB,
      path: "/dev/kv/t1",
      device: { major: 254, minor: 4 },
      tags: ["a=b", "c"],
      attr: "Vwi-a-tz--",
      pool: "pool",
      origin: "",
      dataPercent: 1.5,
      metadataPercent: 0,
      metadataSizeBytes: 0,
      dataColumns: 1,
      chunkBytes: 0,
    });
    expect(group?.volumes.get("pool")).toMatchObject({
      dataPercent: 12.34,
      metadataPercent: 11.04,
      metadataSizeBytes: 4 * MIB,
      dataColumns: 1,
      chunkBytes: 65_536,
    });
  });

  it("has no figure, rather than 0, for a thin pool of which LVM tells none", () => {
    const unreported = JSON_REPORT.replaceAll('"12.34"', '""').replaceAll('"11.04"', '""');
    expect(parseReport(unreported).get("kv")?.volumes.get("pool")).toMatchObject({
      dataPercent: Number.NaN,
      metadataPercent: Number.NaN,
    });
  });

  it("tells a volume without a device, stripes, and a thick snapshot's size as its origin's", () => {
    expect(group?.volumes.get("off")).toMatchObject({ device: undefined, dataColumns: 2 });
    expect(group?.volumes.get("snap")).toMatchObject({ sizeBytes: 100 * MIB, dataColumns: 1 });
  });

  it("gives each class its own volumes, and none its pool", () => {
    const thick = classState(report, deviceClass({ volumeGroup: "kv" }));
    const thin = classState(
      report,
      deviceClass({ volumeGroup: "kv", thinPool: { name: "pool", overprovisionRatio: 1 } }),
    );
    if (isUnusable(thick) || isUnusable(thin)) throw new Error("unusable");
    expect(volumesOf(thick).map(({ name }) => name)).toEqual(["off", "snap"]);
    expect(volumesOf(thin).map(({ name }) => name)).toEqual(["t1"]);
    expect(findVolume(thick, "pool")).toBeUndefined();
    expect(findVolume(thick, "t1")).toBeUndefined();
  });

  it.each([
    ["a group that is gone", { volumeGroup: "none" }, "no volume group none"],
    [
      "a pool that is gone",
      { volumeGroup: "kv", thinPool: { name: "none", overprovisionRatio: 1 } },
      "no thin pool none",
    ],
    [
      "a pool that is none",
      { volumeGroup: "kv", thinPool: { name: "off", overprovisionRatio: 1 } },
      "no thin pool off",
    ],
  ])("makes a class with %s unusable", (_case, settings, problem) => {
    expect(classState(report, deviceClass(settings))).toMatchObject({ problem: expect.stringContaining(problem) });
  });

  it.each([
    ["not json", "not JSON"],
    ['{"report":[{"vg":[{"vg_name":"a"}]}]}', "lacks vg_size"],
    [JSON_REPORT.replace("2143289344", "2g"), '"2g" as vg_size'],
    [JSON_REPORT.replace("2143289344", "-5"), '"-5" as vg_size'],
    [JSON_REPORT.replace('"314572800"', '""'), '"" as lv_size'],
  ])("that cannot be believed is refused: %.40s", (text, problem) => {
    expect(() => parseReport(text)).toThrow(LvmError);
    expect(() => parseReport(text)).toThrow(problem);
  });
});

describe("what lvmd itself has done", () => {
  const report = parseReport(JSON_REPORT);
  const made = { ...(report.get("kv")?.volumes.get("t1") as ReportedVolume), name: "new", uuid: "" };
  const created: OwnChange = { kind: "Created", group: "kv", volume: made, takenBytes: 100 * MIB };
  const free = (of: Report): number => (of.get("kv")?.freeBytes ?? 0) - 1061158912;

  it("shows in the report that was made before it, once", () => {
    const once = withOwnChange(report, created);
    expect(free(once)).toBe(-100 * MIB);
    expect(once.get("kv")?.devices[0]?.freeBytes).toBe(1061158912 - 100 * MIB);
    expect(withOwnChange(once, created)).toBe(once);
  });

  it("changes nothing in a report that shows it already", () => {
    expect(
      withOwnChange(report, { kind: "Resized", group: "kv", name: "t1", sizeBytes: 300 * MIB, takenBytes: 5 }),
    ).toBe(report);
    expect(withOwnChange(report, { kind: "Removed", group: "kv", name: "none", freedBytes: 5 })).toBe(report);
    expect(withOwnChange(report, { kind: "Removed", group: "none", name: "t1", freedBytes: 5 })).toBe(report);
  });

  it("tags a volume, once, and takes tags from it", () => {
    const change = { kind: "Tagged", group: "kv", name: "t1", add: ["x"], remove: ["c"] } as const;
    const tagged = withOwnChange(report, change);
    expect(tagged.get("kv")?.volumes.get("t1")?.tags).toEqual(["a=b", "x"]);
    expect(withOwnChange(tagged, change)).toBe(tagged);
  });

  it("gives back what a removed volume had", () => {
    const removed = withOwnChange(withOwnChange(report, created), {
      kind: "Removed",
      group: "kv",
      name: "new",
      freedBytes: 100 * MIB,
    });
    expect(free(removed)).toBe(0);
    expect(removed.get("kv")?.volumes.has("new")).toBe(false);
  });
});
