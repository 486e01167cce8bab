// Nothing is cut off a member before the superblocks that are on it say so: what the kernel shows is in memory, and gone after a power cut.
import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { recordWithLayout } from "../../../../../src/agent/gather/layout-record.ts";
import type { BlockHost } from "../../../../../src/agent/storage/block/block-member.ts";
import { cutMember } from "../../../../../src/agent/storage/block/resize-member.ts";
import type { FilesystemReading, OpenMount } from "../../../../../src/agent/storage/filesystem/mount-reader.ts";
import type { LoopVolume, MountedLoop } from "../../../../../src/agent/storage/storage.ts";
import type { Tools } from "../../../../../src/agent/storage/tools.ts";
import { volumeOf } from "../../../../../src/agent/volumes/volume-state.ts";
import { MIB } from "../../../../../src/contracts/quantities/quantity.ts";
import { buildLayout } from "../../../../builders/filesystem-layout.ts";
import { doubleOf } from "../../../../fakes/double-of.ts";

const [PRESENT, END, GRAIN] = [400 * MIB, 300 * MIB, 4 * MIB];
/** In a superblock: nothing is read of it. */
const LABEL = 0x12b;
const volume = volumeOf(recordWithLayout(buildLayout(), undefined)) as LoopVolume;

describe("the cut of a member behind a btrfs", () => {
  let directory: string;
  let path: string;
  let cuts: number[];
  let syncs: number;
  /** What a sync of the filesystem brings to its superblocks. */
  let onSync: () => void;
  /** What somebody else does meanwhile. */
  let onCut: () => void;
  let shownBytes: number;
  /** Of the member: from, to. */
  let grown: [number, number][];

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-cut-member-"));
    path = join(directory, "member");
    [cuts, syncs, grown] = [[], 0, []];
    [onSync, onCut] = [() => undefined, () => undefined];
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  /** A member whose superblocks say that this filesystem ends there. */
  function commit(endBytes: number, fsid = volume.fsid): void {
    rmSync(path, { force: true });
    writeFileSync(path, "");
    truncateSync(path, PRESENT);
    execFileSync("/usr/sbin/mkfs.btrfs", ["-q", "-U", fsid, "-b", String(endBytes), path]);
    truncateSync(path, PRESENT);
  }

  function damage(place: number): void {
    const file = openSync(path, "r+");
    writeSync(file, "x", place);
    closeSync(file);
  }

  /** `endBytes`: what the kernel shows as the filesystem's size. */
  function cut(endBytes: number, devid = "1"): Promise<number> {
    shownBytes = endBytes;
    const host = doubleOf<BlockHost<LoopVolume>>("BlockHost", {
      members: doubleOf<BlockHost<LoopVolume>["members"]>("BlockMembers", {
        nameOf: () => "member",
        grainBytes: () => GRAIN,
        assertWhole: () => undefined,
        mountedBytes: () => PRESENT,
        superblockPath: () => path,
        cut: async (_volume, _fromBytes, toBytes) => {
          cuts.push(toBytes);
          onCut();
          return toBytes;
        },
        grow: async (_volume, fromBytes, toBytes) => void grown.push([fromBytes, toBytes]),
      }),
      tools: doubleOf<Tools>("Tools", {
        query: async () => {
          syncs += 1;
          onSync();
          return { commandLine: "sync", exitCode: 0, stdout: "", stderr: "" };
        },
      }),
    });
    const opened = doubleOf<OpenMount>("OpenMount", {
      read: async () => doubleOf<FilesystemReading>("FilesystemReading", { capacityBytes: shownBytes }),
    });
    const mounted: MountedLoop = { ...volume, device: "/dev/loop9", mountPath: directory };
    return cutMember(host, mounted, devid, opened, new AbortController().signal);
  }

  it("is made where kernel and superblocks agree on its end", async () => {
    commit(END);
    expect([await cut(END), cuts, syncs]).toEqual([END, [END], 0]);
  });

  it("is made up to a whole grain behind that end", async () => {
    commit(END + MIB);
    expect([await cut(END + MIB), cuts]).toEqual([END + GRAIN, [END + GRAIN]]);
  });

  it("is taken back where somebody has grown the filesystem into it meanwhile", async () => {
    commit(END);
    onCut = () => {
      shownBytes = PRESENT;
    };
    await expect(cut(END)).rejects.toThrow(/another process grew it to 400Mi, so its member has its 400Mi again/);
    expect([cuts, grown]).toEqual([[END], [[END, PRESENT]]]);
  });

  it("waits for a sync where the superblocks lag behind the kernel, and is made once they have followed", async () => {
    commit(PRESENT);
    onSync = () => commit(END);
    expect([await cut(END), cuts, syncs]).toEqual([END, [END], 1]);
  });

  it.each<readonly [string, () => void, string]>([
    ["still say the former end after a sync", () => commit(PRESENT), "1"],
    ["say an end between the two", () => commit(END + 50 * MIB), "1"],
    ["are another filesystem's", () => commit(END, "0f0e0d0c-0000-4000-8000-000000000001"), "1"],
    ["are another device's of this filesystem", () => commit(END), "2"],
    ["have a wrong checksum", () => (commit(END), damage(65_536 + LABEL)), "1"],
    ["have a second copy with a wrong checksum", () => (commit(END), damage((64 << 20) + LABEL)), "1"],
    ["are not there", () => (writeFileSync(path, ""), truncateSync(path, PRESENT)), "1"],
  ])("is not made where the superblocks %s", async (_what, prepare, devid) => {
    prepare();
    await expect(cut(END, devid)).rejects.toMatchObject({
      code: "CommandFailed",
      message: expect.stringContaining("the member is not cut"),
    });
    expect([cuts, syncs]).toEqual([[], 1]);
  });
});
