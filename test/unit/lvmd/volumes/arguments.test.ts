import { describe, expect, it } from "@jest/globals";
import { refuseTags, refuseVolumeName } from "../../../../src/lvmd/lvm/lvm.ts";
import { activateVolume, changeTags, renameVolume } from "../../../../src/lvmd/volumes/change-attributes.ts";
import { createVolume } from "../../../../src/lvmd/volumes/create-volume.ts";
import type { ReduceTokens } from "../../../../src/lvmd/volumes/reduce/reductions.ts";
import { removeVolume, wipeAndRemove } from "../../../../src/lvmd/volumes/remove-volume.ts";
import { resizeVolume } from "../../../../src/lvmd/volumes/resize-volume.ts";
import { createSnapshot } from "../../../../src/lvmd/volumes/snapshots.ts";
import { hostWithReport } from "../host-with-report.ts";
import { deviceClass, GIB, groupOf, volume } from "../lvm-facts.ts";

describe("a name for LVM", () => {
  it.each(["6f9619ff-8b86-d011-b42d-00c04fc964ff", "a", "_a", "+a.b-c", "x".repeat(127)])("may be %.20s", (name) => {
    expect(() => refuseVolumeName(name)).not.toThrow();
  });

  it.each([
    "",
    "-a",
    "--config",
    ".",
    "..",
    "a/b",
    "a b",
    "a\n",
    "ä",
    "x".repeat(128),
    "snapshot1",
    "pvmove0",
    "a_tmeta",
  ])("may not be %j", (name) => {
    expect(() => refuseVolumeName(name)).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
  });
});

describe("a name that LVM would read as an option", () => {
  const pool = volume({ name: "pool", attr: "twi-aotz--", sizeBytes: GIB, chunkBytes: 65_536 });
  // Even where a report has one.
  const named = volume({ name: "-ff", pool: "pool" });
  const thin = deviceClass({ name: "class", thinPool: { name: "pool", overprovisionRatio: 10 } });
  const host = hostWithReport(thin, [groupOf([GIB], [pool, named, volume({ name: "v", pool: "pool" })])]);
  const snapshot = { deviceClass: "class", access: "rw", sizeBytes: 0, tags: [] };
  const order = { deviceClass: "class", optionClass: "", sizeBytes: GIB, tags: [] };

  it.each<readonly [string, () => Promise<unknown>]>([
    ["creating it", () => createVolume(host, { ...order, name: "-ff" })],
    ["a snapshot of it", () => createSnapshot(host, { ...snapshot, name: "new", source: "-ff" })],
    ["a snapshot called so", () => createSnapshot(host, { ...snapshot, name: "-ff", source: "v" })],
    ["growing it", () => resizeVolume(host, {} as ReduceTokens, "class", "-ff", 2 * GIB)],
    ["activating it", () => activateVolume(host, "class", "-ff")],
    ["renaming it", () => renameVolume(host, "class", "-ff", "new")],
    ["renaming another to it", () => renameVolume(host, "class", "v", "-ff")],
    ["tagging it", () => changeTags(host, "class", "-ff", { add: ["x"], remove: [] })],
    ["removing it", () => removeVolume(host, "class", "-ff")],
    ["wiping it", () => wipeAndRemove(host, "class", "-ff")],
  ])("reaches LVM by no call: not by %s", async (_what, call) => {
    await expect(call()).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining('"-ff"'),
    });
  });
});

describe("a tag for LVM", () => {
  it("may name a claim", () => {
    expect(() => refuseTags(["tidemark.dev/claim=shop/db", "a:b&c#d!"])).not.toThrow();
  });

  it.each(["", "-a", "a b", "a,b", "a\nb", "a\n", "@a", "x".repeat(1025), "tidemark.dev/wipe-begun"])(
    "may not be %j",
    (tag) => {
      expect(() => refuseTags(["fine", tag])).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
    },
  );
});
