// A class that has come to point at another volume group or pool: what is in the former one is there, and nobody is told otherwise.
import { describe, expect, it } from "@jest/globals";
import { Refusal } from "../../../../src/contracts/csi/refusal.ts";
import type { ReportedGroup } from "../../../../src/lvmd/lvm/report.ts";
import type { DeviceClass } from "../../../../src/lvmd/settings/settings.ts";
import { changeTags, renameVolume } from "../../../../src/lvmd/volumes/change-attributes.ts";
import { createVolume } from "../../../../src/lvmd/volumes/create-volume.ts";
import { cancelReduce, reduceVolume } from "../../../../src/lvmd/volumes/reduce/reduce-volume.ts";
import type { ReduceTokens } from "../../../../src/lvmd/volumes/reduce/reductions.ts";
import { removeVolume, wipeAndRemove } from "../../../../src/lvmd/volumes/remove-volume.ts";
import { resizeVolume } from "../../../../src/lvmd/volumes/resize-volume.ts";
import { createSnapshot } from "../../../../src/lvmd/volumes/snapshots.ts";
import { hostWithReport } from "../host-with-report.ts";
import { deviceClass, GIB, groupOf, MIB, volume } from "../lvm-facts.ts";

const pool = (name: string) => volume({ name, attr: "twi-aotz--", sizeBytes: GIB, chunkBytes: 65_536 });
const tags = ["tidemark.dev/volume-uid=some"];
const kept = volume({ name: "kept", uuid: "uuid-kept", tags });
const keptThin = volume({ name: "kept", uuid: "uuid-kept", tags, pool: "former", attr: "Vwi-a-tz--" });
const FORMER = { ...groupOf([GIB], [kept]), name: "former" };
const THICK = deviceClass({ name: "class", volumeGroup: "g" });
const THIN = deviceClass({ ...THICK, thinPool: { name: "pool", overprovisionRatio: 10 } });

const CASES: readonly (readonly [where: string, DeviceClass, readonly ReportedGroup[]])[] = [
  ["another volume group", THICK, [FORMER, groupOf([GIB])]],
  ["another volume group, of a thin class", THIN, [FORMER, groupOf([GIB], [pool("pool")])]],
  ["another pool of its group", THIN, [groupOf([GIB], [pool("pool"), pool("former"), keptThin])]],
  ["a pool of the group that the class is no pool of any more", THICK, [groupOf([GIB], [pool("former"), keptThin])]],
];

const burnt: string[] = [];
const tokens: ReduceTokens = {
  get: (token) =>
    token === "begun"
      ? {
          ...{ token, volumeUUID: "uuid-kept", fromBytes: GIB, toBytes: MIB, atMs: 0 },
          end: { state: "Begun", targetBytes: 4 * MIB },
        }
      : undefined,
  openOf: () => undefined,
  open: () => [],
  begin: () => Promise.reject(new Error("nothing is to be begun")),
  end: async (_request, end) => end,
  burn: async (token) => {
    burnt.push(token);
  },
};

describe.each(CASES)("a volume that is in %s", (_where, pointed, groups) => {
  const host = hostWithReport(pointed, groups);

  it.each<readonly [string, () => Promise<unknown>]>([
    ["removed", () => removeVolume(host, "class", "kept")],
    ["wiped and removed", () => wipeAndRemove(host, "class", "kept")],
    ["grown", () => resizeVolume(host, tokens, "class", "kept", 2 * GIB)],
    ["renamed", () => renameVolume(host, "class", "kept", "other")],
    ["tagged", () => changeTags(host, "class", "kept", { add: ["x"], remove: [] })],
  ])("is not said to be gone when it is to be %s", async (_what, call) => {
    const refusal = await call().catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(Refusal);
    expect(refusal).toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringContaining("nothing is done to it"),
    });
  });

  it("gets no second one of its name", async () => {
    const order = { name: "kept", deviceClass: "class", optionClass: "", sizeBytes: 4 * MIB, tags: [] };
    const refusal = await createVolume(host, order).catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(Refusal);
    expect(["FAILED_PRECONDITION", "ALREADY_EXISTS"]).toContain((refusal as Refusal).code);
  });
});

describe("a volume in another volume group than its class'", () => {
  const host = hostWithReport(THIN, [FORMER, groupOf([GIB], [pool("pool"), volume({ name: "source", pool: "pool" })])]);
  const order = { deviceClass: "class", access: "rw", sizeBytes: 0, tags: [] };

  it("is no source of a snapshot, and no snapshot gets its name", async () => {
    for (const names of [
      { name: "new", source: "kept" },
      { name: "kept", source: "source" },
    ])
      await expect(createSnapshot(host, { ...order, ...names })).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
  });

  it("is not reduced, and what became of a reduction of it is not guessed", async () => {
    const request = { volumeUUID: "uuid-kept", fromBytes: GIB, toBytes: MIB, token: "t" };
    await expect(reduceVolume(host, tokens, request)).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    await expect(cancelReduce(host, tokens, "begun")).rejects.toThrow("former/kept is of no device class");
    expect(burnt).toEqual([]);
  });

  it("counts only where it is ours by its tag: a name like one of ours is anybody's", async () => {
    const others = {
      ...groupOf([GIB], [volume({ name: "kept", tags: ["tidemark.dev/volume-uids"] })]),
      name: "former",
    };
    const beside = hostWithReport(THIN, [others, groupOf([GIB], [pool("pool")])]);
    await expect(removeVolume(beside, "class", "kept")).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(await wipeAndRemove(beside, "class", "kept")).toBeUndefined();
  });

  it("does not hide that another one is nowhere", async () => {
    await expect(removeVolume(host, "class", "none")).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(await wipeAndRemove(host, "class", "none")).toBeUndefined();
  });
});
