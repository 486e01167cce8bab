// A volume that somebody else makes between lvmd's report and its own command.
import { beforeEach, describe, expect, it } from "@jest/globals";
import { LvmError } from "../../../src/lvmd/lvm/lvm-error.ts";
import type { ReportedVolume } from "../../../src/lvmd/lvm/report.ts";
import { createVolume } from "../../../src/lvmd/volumes/create-volume.ts";
import type { VolumeHost } from "../../../src/lvmd/volumes/volume-host.ts";
import { hostWithReport } from "./host-with-report.ts";
import { deviceClass, GIB, groupOf, volume } from "./lvm-facts.ts";

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
    expect(await createVolume(host, ORDER)).toMatchObject({
      code: "ALREADY_EXISTS",
      message: expect.stringContaining(`of ${2 * GIB} bytes`),
    });
  });
});
