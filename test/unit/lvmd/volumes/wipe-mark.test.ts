import { describe, expect, it } from "@jest/globals";
import { WIPE_BEGUN_TAG } from "../../../../src/contracts/names.ts";
import { activateVolume, changeTags, renameVolume } from "../../../../src/lvmd/volumes/change-attributes.ts";
import { createVolume } from "../../../../src/lvmd/volumes/create-volume.ts";
import { reduceVolume } from "../../../../src/lvmd/volumes/reduce/reduce-volume.ts";
import type { ReduceTokens } from "../../../../src/lvmd/volumes/reduce/reductions.ts";
import { resizeVolume } from "../../../../src/lvmd/volumes/resize-volume.ts";
import { createSnapshot } from "../../../../src/lvmd/volumes/snapshots.ts";
import { hostWithReport } from "../host-with-report.ts";
import { deviceClass, GIB, groupOf, MIB, volume } from "../lvm-facts.ts";

const tags = [WIPE_BEGUN_TAG];
const pool = volume({ name: "pool", attr: "twi-aotz--", sizeBytes: GIB, chunkBytes: 65_536 });
const host = hostWithReport(deviceClass({ name: "class", thinPool: { name: "pool", overprovisionRatio: 10 } }), [
  groupOf(
    [GIB],
    [
      pool,
      volume({ name: "wiped", pool: "pool", tags }),
      volume({ name: "whole", pool: "pool" }),
      volume({ name: "snap", pool: "pool", origin: "whole", tags }),
    ],
  ),
]);
const tokens = { get: () => undefined, openOf: () => undefined } as Partial<ReduceTokens> as ReduceTokens;

describe("a volume whose wipe has begun", () => {
  const snapshot = { deviceClass: "class", access: "rw", sizeBytes: 0, tags: [] };

  it.each<readonly [string, () => Promise<unknown>]>([
    [
      "is not found by who makes it again",
      () => createVolume(host, { name: "wiped", deviceClass: "class", optionClass: "", sizeBytes: GIB, tags: [] }),
    ],
    ["is not activated", () => activateVolume(host, "class", "wiped")],
    ["does not grow", () => resizeVolume(host, tokens, "class", "wiped", 2 * GIB)],
    ["is not renamed", () => renameVolume(host, "class", "wiped", "other")],
    ["is not found by its new name", () => renameVolume(host, "class", "gone", "wiped")],
    ["is not tagged", () => changeTags(host, "class", "wiped", { add: ["x"], remove: [] })],
    ["is no source of a snapshot", () => createSnapshot(host, { ...snapshot, name: "new", source: "wiped" })],
    ["is not found as a snapshot", () => createSnapshot(host, { ...snapshot, name: "snap", source: "whole" })],
    [
      "is not reduced",
      () => reduceVolume(host, tokens, { volumeUUID: "uuid-wiped", fromBytes: GIB, toBytes: MIB, token: "t" }),
    ],
  ])("%s", async (_what, call) => {
    await expect(call()).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringMatching(/^the wipe of volume g\/(wiped|snap) has begun/),
    });
  });

  it("loses that mark to nobody", async () => {
    const call = changeTags(host, "class", "wiped", { add: [], remove: [WIPE_BEGUN_TAG] });
    await expect(call).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });
});
