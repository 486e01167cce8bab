// The cut of a volume, whole, on LVM's own metadata and real devices: what is looked at, what is recorded, and in which order. What only a
// mounted filesystem, a thin pool or a death shows is in test/vm/lvmd.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { cancelReduce, reduceVolume, settleReductions } from "../../../src/lvmd/volumes/reduce/reduce-volume.ts";
import type { ReduceRecord, ReduceTokens } from "../../../src/lvmd/volumes/reduce/reductions.ts";
import { CommandError } from "../../../src/platform/process/effects/command-port.ts";
import { describeReal } from "../../harness/real-parts.ts";
import { waitFor } from "../../harness/wait-for.ts";
import { MIB } from "../storage/storage-fixture.ts";
import { createLvmdOnLoop, type LvmdOnLoop, marksLeft, writeMarks } from "./lvmd-on-loop.ts";

const [FROM, TO] = [400 * MIB, 200 * MIB];
/** 64 MiB are cleared at a time. */
const PIECES = 4;

describeReal("the cut of a volume", ["root", "loop", "lvm"], () => {
  let lvmd: LvmdOnLoop;
  let tokens: ReduceTokens;
  let path: string;
  let uuid: string;

  beforeEach(async () => {
    lvmd = await createLvmdOnLoop();
    tokens = lvmd.loadTokens();
    ({ path, uuid } = await lvmd.create("v", FROM));
  });
  afterEach(() => lvmd.close());

  const reduce = (of: ReduceTokens = tokens) =>
    reduceVolume(lvmd.host, of, { volumeUUID: uuid, fromBytes: FROM, toBytes: TO, token: "t" });
  const format = (sizeBytes: number): void => {
    execFileSync("mkfs.ext4", ["-q", "-F", path, `${sizeBytes / 1024}k`], { stdio: "pipe" });
  };
  const growFilesystem = (sizeBytes: number): void => {
    execFileSync("resize2fs", ["-f", path, `${sizeBytes / 1024}k`], { stdio: "pipe" });
  };
  const recordOnDisk = (): ReduceRecord =>
    JSON.parse(readFileSync(join(lvmd.tokenDirectory, "token-t.json"), "utf8")) as ReduceRecord;
  const isCut = (): boolean => lvmd.done.includes("lvmd-reduce/lvreduce");

  it("is recorded before anything is cleared, clears all that goes, and is recorded once LVM has done it", async () => {
    format(TO);
    const places = [TO, TO + 64 * MIB, FROM - 4096];
    writeMarks(path, [TO - 4096, ...places]);
    const recorded: string[] = [];
    let left: number[] = [];
    lvmd.at = (passage) => {
      if (passage === "lvmd-reduce/zero/before" || passage === "lvmd-reduce/lvreduce/before")
        recorded.push(recordOnDisk().end.state);
      if (passage === "lvmd-reduce/lvreduce/before") left = marksLeft(path, [TO - 4096, ...places]);
    };
    expect(await reduce()).toBe(TO);
    expect(lvmd.done).toEqual([
      "lvmd-reduce/record-begin",
      ...Array.from({ length: PIECES }, () => "lvmd-reduce/zero"),
      "lvmd-reduce/lvreduce",
      "lvmd-reduce/record-end",
    ]);
    expect(recorded).toEqual(Array.from({ length: PIECES + 1 }, () => "Begun"));
    expect(left).toEqual([TO - 4096]);
    expect(await lvmd.sizeOf("v")).toBe(TO);
    expect(recordOnDisk().end).toEqual({ state: "Reduced", sizeBytes: TO });
    execFileSync("e2fsck", ["-fn", path], { stdio: "pipe" });
  });

  it.each<readonly [string, () => void]>([
    ["whose filesystem ends beyond it", () => format(TO + 4 * MIB)],
    ["without any filesystem", () => undefined],
    ["with swap on it", () => execFileSync("mkswap", [path, "100000"], { stdio: "pipe" })],
  ])("is refused of a volume %s: nothing is cleared, LVM is not asked", async (_what, prepare) => {
    prepare();
    writeMarks(path, [FROM - 4096]);
    await expect(reduce()).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    expect(lvmd.done).toEqual(["lvmd-reduce/record-end"]);
    expect(recordOnDisk().end).toMatchObject({ state: "Refused", code: "FAILED_PRECONDITION" });
    expect(marksLeft(path, [FROM - 4096])).toEqual([FROM - 4096]);
    expect(await lvmd.sizeOf("v")).toBe(FROM);
  });

  /** As callers do, it asks again where another test of this machine has left a command of LVM's that may be the reduction. */
  function burn(token: string): Promise<unknown> {
    return waitFor("no command to be left", () => cancelReduce(lvmd.host, tokens, token));
  }

  it("is not carried out by a token that was burnt, then, after a restart, or when its volume is gone", async () => {
    format(TO);
    expect(await burn("t")).toEqual({ reducedTo: undefined });
    await expect(reduce()).rejects.toMatchObject({ code: "ABORTED", message: expect.stringContaining("cancelled") });
    await expect(reduce(lvmd.loadTokens())).rejects.toMatchObject({ code: "ABORTED" });
    expect(await lvmd.sizeOf("v")).toBe(FROM);
    await lvmd.lvm("lvremove", "-f", `${lvmd.group}/v`);
    await lvmd.host.reports.fresh();
    await expect(reduce()).rejects.toMatchObject({ code: "ABORTED", message: expect.stringContaining("cancelled") });
    expect(lvmd.done).toEqual(["lvmd-reduce/burn"]);
  });

  it("is not made when the filesystem has grown into it after the last piece was cleared", async () => {
    format(TO);
    lvmd.at = (passage, before) => {
      if (passage === "lvmd-reduce/zero/after" && before === PIECES - 1) growFilesystem(TO + 100 * MIB);
    };
    await expect(reduce()).rejects.toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringContaining("its ext4 ends at"),
    });
    expect(isCut()).toBe(false);
    expect(await lvmd.sizeOf("v")).toBe(FROM);
    execFileSync("e2fsck", ["-fn", path], { stdio: "pipe" });
  });

  it("ends, and its token with it, when the filesystem grows while its end is cleared", async () => {
    format(TO);
    lvmd.at = (passage, before) => {
      if (passage === "lvmd-reduce/zero/after" && before === 0) growFilesystem(TO + 100 * MIB);
    };
    const refused = { code: "FAILED_PRECONDITION", message: expect.stringContaining("its ext4 ends at") };
    await expect(reduce()).rejects.toMatchObject(refused);
    expect(lvmd.done).toEqual(["lvmd-reduce/record-begin", "lvmd-reduce/zero", "lvmd-reduce/record-end"]);
    expect(recordOnDisk().end).toMatchObject({ state: "Refused", ...refused });
    lvmd.at = () => undefined;
    format(TO);
    await expect(reduce()).rejects.toMatchObject(refused);
    execFileSync("e2fsck", ["-fn", path], { stdio: "pipe" });
  });

  it.each([
    ["has surely not done it: its token has ended", "before", "Refused"],
    ["may have done it: its token stays open", "after", "Begun"],
  ] as const)("is refused where LVM could not be run, and %s", async (_what, moment, state) => {
    format(TO);
    lvmd.at = (passage) => {
      if (passage === `lvmd-reduce/lvreduce/${moment}`) throw new CommandError("Failed", "lvreduce", "it was ended");
    };
    await expect(reduce()).rejects.toMatchObject({ message: expect.stringContaining("it was ended") });
    expect(recordOnDisk().end.state).toBe(state);
  });

  it("is not made when its token was cancelled after the last piece", async () => {
    format(TO);
    let cancelled: ReturnType<typeof cancelReduce> | undefined;
    lvmd.at = (passage, before) => {
      if (passage === "lvmd-reduce/zero/after" && before === PIECES - 1)
        cancelled = cancelReduce(lvmd.host, tokens, "t");
    };
    await expect(reduce()).rejects.toMatchObject({ code: "ABORTED" });
    expect(await cancelled).toEqual({ reducedTo: undefined });
    expect([isCut(), await lvmd.sizeOf("v"), recordOnDisk().end]).toEqual([false, FROM, { state: "Burnt" }]);
  });

  it("is not made when somebody else has made the volume larger meanwhile", async () => {
    format(TO);
    lvmd.at = async (passage, before) => {
      if (passage === "lvmd-reduce/zero/after" && before === PIECES - 1)
        await lvmd.lvm("lvextend", "--size", `${FROM + 100 * MIB}b`, `${lvmd.group}/v`);
    };
    await expect(reduce()).rejects.toMatchObject({ code: "ABORTED", message: expect.stringContaining("not the") });
    expect([isCut(), await lvmd.sizeOf("v")]).toEqual([false, FROM + 100 * MIB]);
  });

  it.each([
    ["right before LVM was asked, is open after a restart, and is carried out by its token alone", "before", FROM, TO],
    ["right after LVM has done it, is found done after a restart", "after", TO, TO],
  ] as const)("that ends %s", async (_what, moment, sizeBytes, reducedTo) => {
    format(TO);
    lvmd.at = (passage) => {
      if (passage === `lvmd-reduce/lvreduce/${moment}`) throw new Error("the process has died");
    };
    await expect(reduce()).rejects.toThrow("the process has died");
    lvmd.at = () => undefined;
    expect(await lvmd.sizeOf("v")).toBe(sizeBytes);
    const restarted = lvmd.loadTokens();
    expect(restarted.openOf(uuid)?.token).toBe("t");
    await settleReductions(lvmd.host, restarted);
    expect(restarted.openOf(uuid)?.token).toBe(moment === "before" ? "t" : undefined);
    expect(await reduce(restarted)).toBe(reducedTo);
    expect(await lvmd.sizeOf("v")).toBe(reducedTo);
    expect(readdirSync(lvmd.tokenDirectory)).toEqual(["token-t.json"]);
  });
});
