// The removal of a thick volume, whole, on LVM's own metadata and real devices: nobody finds on the disk afterwards what was on it, and
// nothing that somebody uses is touched.
import { execFileSync } from "node:child_process";
import { closeSync, constants, mkdirSync, mkdtempSync, openSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { WIPE_BEGUN_TAG } from "../../../src/contracts/names.ts";
import { wipeAndRemove } from "../../../src/lvmd/volumes/remove-volume.ts";
import { describeReal } from "../../harness/real-parts.ts";
import { MIB } from "../storage/storage-fixture.ts";
import { createLvmdOnLoop, type LvmdOnLoop, marksLeft, writeMarks } from "./lvmd-on-loop.ts";

/** Two whole pieces of 128 MiB, and a part of one. */
const SIZE = 300 * MIB;
const PLACES = [0, 127 * MIB, 128 * MIB, 255 * MIB, 256 * MIB, SIZE - 4096];

describeReal("the removal of a thick volume", ["root", "loop", "lvm"], () => {
  let lvmd: LvmdOnLoop;
  let path: string;

  beforeEach(async () => {
    lvmd = await createLvmdOnLoop();
    ({ path } = await lvmd.create("v", SIZE));
    writeMarks(path, PLACES);
  });
  afterEach(() => lvmd.close());

  const remove = () => wipeAndRemove(lvmd.host, "class", "v");
  const tags = async (): Promise<string> => (await lvmd.lvm("lvs", "--noheadings", "-o", "lv_tags", lvmd.group)).trim();

  it("zeroes all of it, the last part of a piece included, after it was marked and before LVM takes it", async () => {
    let [atZero, atEnd]: [string, number[]] = ["", PLACES];
    lvmd.at = async (passage, before) => {
      if (passage === "lvmd-wipe/zero/before" && before === 0) atZero = await tags();
      if (passage === "lvmd-remove/lvremove/before") atEnd = marksLeft(path, PLACES);
    };
    expect(await remove()).toBeUndefined();
    expect(lvmd.done).toEqual([
      "lvmd-wipe/mark",
      "lvmd-wipe/zero",
      "lvmd-wipe/zero",
      "lvmd-wipe/zero",
      "lvmd-remove/lvremove",
    ]);
    expect([atZero, atEnd]).toEqual([WIPE_BEGUN_TAG, []]);
    expect(await lvmd.sizeOf("v")).toBeUndefined();
  });

  // LVM's report, which is looked at first, says nothing of it yet: only the kernel does, when the device is opened.
  it.each<readonly [string, () => () => void]>([
    ["is mounted", mountIt],
    ["another program opens for itself alone", openAlone],
  ])("touches nothing of one that %s right after LVM was asked", async (_what, use) => {
    let letGo: (() => void) | undefined;
    const fresh = async () => {
      const report = await lvmd.host.reports.fresh();
      letGo ??= use();
      return report;
    };
    try {
      const late = { ...lvmd.host, reports: { ...lvmd.host.reports, fresh } };
      await expect(wipeAndRemove(late, "class", "v")).rejects.toMatchObject({
        code: "FAILED_PRECONDITION",
        message: expect.stringContaining("in use"),
      });
      expect([lvmd.done, await tags()]).toEqual([[], ""]);
      expect(marksLeft(path, PLACES.slice(1))).toEqual(PLACES.slice(1));
      expect(await lvmd.sizeOf("v")).toBe(SIZE);
    } finally {
      letGo?.();
    }
    expect(await remove()).toBeUndefined();
    expect(await lvmd.sizeOf("v")).toBeUndefined();
  });

  it("is made again from the beginning when the volume has grown meanwhile: the new part is wiped, too", async () => {
    const grown = SIZE + 100 * MIB;
    let atEnd: number[] = [];
    lvmd.at = async (passage, before) => {
      if (passage === "lvmd-wipe/zero/after" && before === 2) {
        await lvmd.lvm("lvextend", "--size", `${grown}b`, `${lvmd.group}/v`);
        writeMarks(path, [...PLACES, grown - 4096]);
      }
      if (passage === "lvmd-remove/lvremove/before") atEnd = marksLeft(path, [...PLACES, grown - 4096]);
    };
    expect(await remove()).toBeUndefined();
    expect(atEnd).toEqual([]);
    expect(lvmd.done.filter((point) => point === "lvmd-remove/lvremove")).toHaveLength(1);
    expect(await lvmd.sizeOf("v")).toBeUndefined();
  });

  it("ends without it when the volume grows each time: the caller asks again", async () => {
    let sizeBytes = SIZE;
    lvmd.at = async (passage) => {
      if (passage !== "lvmd-wipe/zero/before") return;
      sizeBytes += 4 * MIB;
      await lvmd.lvm("lvextend", "--size", `${sizeBytes}b`, `${lvmd.group}/v`);
    };
    await expect(remove()).rejects.toMatchObject({
      code: "ABORTED",
      message: expect.stringContaining("grew while it was wiped"),
    });
    expect(await lvmd.sizeOf("v")).toBe(sizeBytes);
    lvmd.at = () => undefined;
    expect(await remove()).toBeUndefined();
    expect(await lvmd.sizeOf("v")).toBeUndefined();
  });

  it("that ended halfway is made by the next call", async () => {
    lvmd.at = (passage, before) => {
      if (passage === "lvmd-wipe/zero/before" && before === 1) throw new Error("the process has died");
    };
    await expect(remove()).rejects.toThrow("the process has died");
    expect([await tags(), marksLeft(path, PLACES)]).toEqual([WIPE_BEGUN_TAG, PLACES.slice(2)]);
    let atEnd: number[] = PLACES;
    lvmd.at = (passage) => {
      if (passage === "lvmd-remove/lvremove/before") atEnd = marksLeft(path, PLACES);
    };
    expect(await remove()).toBeUndefined();
    expect([atEnd, await lvmd.sizeOf("v")]).toEqual([[], undefined]);
  });

  function mountIt(): () => void {
    const mountPath = mkdtempSync("/dev/shm/tidemark-lvmd-mount-");
    const inside = join(mountPath, "m");
    mkdirSync(inside);
    // One of 64 MiB: what lies behind it stays as it is.
    execFileSync("mkfs.ext4", ["-q", "-F", path, "64m"], { stdio: "pipe" });
    execFileSync("mount", [path, inside]);
    return () => {
      execFileSync("umount", [inside]);
      rmdirSync(inside);
      rmdirSync(mountPath);
    };
  }

  function openAlone(): () => void {
    const device = openSync(path, constants.O_RDONLY | constants.O_EXCL);
    return () => closeSync(device);
  }
});
