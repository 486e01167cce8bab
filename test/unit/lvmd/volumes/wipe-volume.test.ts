import { describe, expect, it } from "@jest/globals";
import { LvmError } from "../../../../src/lvmd/lvm/lvm-error.ts";
import { wipeAndRemove } from "../../../../src/lvmd/volumes/remove-volume.ts";
import type { VolumeHost } from "../../../../src/lvmd/volumes/volume-host.ts";
import { hostWithReport } from "../host-with-report.ts";
import { deviceClass, GIB, groupOf, volume } from "../lvm-facts.ts";

const THIN = deviceClass({ name: "class", thinPool: { name: "pool", overprovisionRatio: 10 } });

/** A pool of these attributes with one volume; LVM does what it is told, until `fails`. */
function hostOf(attr: string, fails?: string) {
  const run: string[][] = [];
  const pool = volume({ name: "pool", attr, sizeBytes: GIB, chunkBytes: 65_536 });
  const host = hostWithReport(THIN, [
    groupOf([GIB], [pool, volume({ name: "old", pool: "pool", attr: "Vri-a-t---" })]),
  ]);
  const lvm: VolumeHost["lvm"] = {
    ...host.lvm,
    run: async (_point, subcommand, args) => {
      run.push([subcommand, ...args]);
      if (subcommand === fails) throw new LvmError("Failed", `${subcommand} failed`);
      return "";
    },
  };
  const reports = { ...host.reports, note: () => undefined, expectChange: () => undefined };
  const log = { warn: () => undefined } as Partial<VolumeHost["log"]> as VolumeHost["log"];
  return { host: { ...host, lvm, reports, log }, run };
}

describe("the removal of a thin volume", () => {
  it("is left to its pool, which zeroes what it hands out", async () => {
    const { host, run } = hostOf("twi-aotz--");
    expect(await wipeAndRemove(host, "class", "old")).toBeUndefined();
    expect(run).toEqual([["lvremove", "-f", "g/old"]]);
  });

  it("has a pool that does not zero from then on", async () => {
    const { host, run } = hostOf("twi-aot---");
    expect(await wipeAndRemove(host, "class", "old")).toBeUndefined();
    expect(run).toEqual([
      ["lvchange", "-Z", "y", "g/pool"],
      ["lvremove", "-f", "g/old"],
    ]);
  });

  it("is not begun where the pool cannot be made to", async () => {
    const { host, run } = hostOf("twi-aot---", "lvchange");
    await expect(wipeAndRemove(host, "class", "old")).rejects.toThrow("lvchange failed");
    expect(run).toEqual([["lvchange", "-Z", "y", "g/pool"]]);
  });
});
