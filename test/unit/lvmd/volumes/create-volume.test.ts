// What lvmd's last report does not show yet: a volume that somebody else has made since, and room that there is by now.
import { beforeEach, describe, expect, it } from "@jest/globals";
import { LvmError } from "../../../../src/lvmd/lvm/lvm-error.ts";
import type { ReportedGroup, ReportedVolume } from "../../../../src/lvmd/lvm/report.ts";
import { createVolume } from "../../../../src/lvmd/volumes/create-volume.ts";
import type { ReduceTokens } from "../../../../src/lvmd/volumes/reduce/reductions.ts";
import { resizeVolume } from "../../../../src/lvmd/volumes/resize-volume.ts";
import type { VolumeHost } from "../../../../src/lvmd/volumes/volume-host.ts";
import { hostWithReport } from "../host-with-report.ts";
import { deviceClass, GIB, groupOf, volume } from "../lvm-facts.ts";

const ORDER = { name: "v", deviceClass: "class", optionClass: "", sizeBytes: GIB, tags: [] };

describe("a volume that LVM has already and no report shows yet", () => {
  let there: readonly ReportedVolume[];
  let host: VolumeHost;

  beforeEach(() => {
    const bare = hostWithReport(deviceClass(), [groupOf([4 * GIB])]);
    host = {
      ...bare,
      reports: { ...bare.reports, fresh: async () => new Map([["g", groupOf([4 * GIB], there)]]) },
      lvm: {
        ...bare.lvm,
        run: () => Promise.reject(new LvmError("Exists", "Logical Volume v already exists in volume group g")),
      },
    };
  });

  it("is the one that was ordered, where it is as large", async () => {
    there = [volume({ name: "v" })];
    expect(await createVolume(host, ORDER)).toMatchObject({ name: "v", sizeBytes: GIB });
  });

  it("is another one, where it is not", async () => {
    there = [volume({ name: "v", sizeBytes: 2 * GIB })];
    await expect(createVolume(host, ORDER)).rejects.toMatchObject({
      code: "ALREADY_EXISTS",
      message: expect.stringContaining(`of ${2 * GIB} bytes`),
    });
  });
});

describe("a volume for which the last report shows no room", () => {
  const full = groupOf([0], [volume({ name: "v" })]);
  const roomy = (name: string, sizeBytes: number) => groupOf([4 * GIB], [volume({ name, sizeBytes })]);

  /** Full by the last report; a new one shows the first of these, and from LVM's first command on the last. */
  function hostOf(before: ReportedGroup, after: ReportedGroup): VolumeHost {
    const bare = hostWithReport(deviceClass(), [full]);
    let now = before;
    const run = async (): Promise<string> => {
      now = after;
      return "";
    };
    const reports = { ...bare.reports, fresh: async () => new Map([["g", now]]), note: () => undefined };
    return { ...bare, reports, lvm: { ...bare.lvm, run } };
  }

  it("is made where LVM has room when it is asked again", async () => {
    const host = hostOf(roomy("v", GIB), roomy("new", GIB));
    expect(await createVolume(host, { ...ORDER, name: "new" })).toMatchObject({ name: "new", sizeBytes: GIB });
  });

  it("grows where LVM has room when it is asked again", async () => {
    const host = hostOf(roomy("v", GIB), roomy("v", 2 * GIB));
    const tokens = { openOf: () => undefined } as Partial<ReduceTokens> as ReduceTokens;
    expect(await resizeVolume(host, tokens, "class", "v", 2 * GIB)).toBe(2 * GIB);
  });

  it("is refused where LVM says the same when it is asked again", async () => {
    const host = hostOf(full, full);
    await expect(createVolume(host, { ...ORDER, name: "new" })).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  });
});
