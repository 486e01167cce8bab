import { describe, expect, it } from "@jest/globals";
import { extendThinPool } from "../../../../src/lvmd/volumes/resize-volume.ts";
import { hostWithReport } from "../host-with-report.ts";
import { deviceClass, GIB, groupOf, MIB, volume } from "../lvm-facts.ts";

const thin = deviceClass({ thinPool: { name: "pool", overprovisionRatio: 4 }, spareBytes: 8 * MIB });
const POOL = volume({ name: "pool", attr: "twi-aotz--", sizeBytes: GIB, metadataSizeBytes: 16 * MIB });

/** What LVM was asked for. */
async function extend(freeBytes: number, sizes: { sizeBytes: number; metadataSizeBytes: number }): Promise<string[]> {
  const asked: string[] = [];
  const bare = hostWithReport(thin, [groupOf([freeBytes], [POOL])]);
  const run = async (_point: string, command: string, words: readonly string[]): Promise<string> => {
    asked.push([command, ...words].join(" "));
    return "";
  };
  await extendThinPool({ ...bare, lvm: { ...bare.lvm, run } }, "class", sizes);
  return asked;
}

describe("the metadata of a thin pool", () => {
  const metadata = { sizeBytes: 0, metadataSizeBytes: 32 * MIB };

  it("grow where there is room for them twice, since LVM has a second place to repair them in, and for the spare", async () => {
    expect(await extend(40 * MIB, metadata)).toEqual([`lvextend --poolmetadatasize ${32 * MIB}b g/pool`]);
  });

  it("do not where the second place would take of the spare", async () => {
    await expect(extend(36 * MIB, metadata)).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  });

  it("grow before the pool itself", async () => {
    const both = { ...metadata, sizeBytes: GIB + 4 * MIB };
    expect(await extend(GIB, both)).toEqual([
      `lvextend --poolmetadatasize ${32 * MIB}b g/pool`,
      `lvextend -L ${GIB + 4 * MIB}b g/pool`,
    ]);
  });
});
