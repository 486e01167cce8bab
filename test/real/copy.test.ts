// The first stage of a volume that was made as a snapshot of another: real filesystems, the source mounted beside it, and what fsync had
// promised still in the log of each.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, openSync, readFileSync, readSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, it } from "@jest/globals";
import { tagsOf } from "../../src/agent/logical-volumes/find-or-make.ts";
import type { LvmVolume, MountedLvm } from "../../src/agent/storage/storage.ts";
import { FS_TYPES, type FsType } from "../../src/contracts/kinds/filesystem-layout.ts";
import { GIB } from "../../src/contracts/quantities/quantity.ts";
import type { Effects } from "../../src/platform/process/effects/effects.ts";
import { noteDeaths } from "../harness/death-notes.ts";
import { describeReal, LOOP_PARTS } from "../harness/real-parts.ts";
import {
  createLvmFixture,
  type LvmFixture,
  makeLvmVolume,
  openLvmStorage,
} from "../integration/storage/lvm-fixture.ts";

const SOURCE_BYTES = GIB / 2;
const WRITTEN = randomBytes(300_000);
const SUPERBLOCK_OFFSET = 65_536;
const SUPERBLOCK_BYTES = 4096;

const CHECKS: Readonly<Record<FsType, readonly [string, ...string[]]>> = {
  btrfs: ["btrfs", "check", "--readonly"],
  ext4: ["e2fsck", "-fn"],
  xfs: ["xfs_repair", "-n"],
};

/** Effects that no other suite dies at. */
const ONLY_OF_A_COPY = [
  "stage/check-copy",
  "stage/keep-checksums",
  "stage/rename-btrfs",
  "stage/rename-ext4",
  "stage/rename-xfs",
  "stage/replay-xfs",
];

describeReal("a volume that begins as a copy", LOOP_PARTS, () => {
  let fixture: LvmFixture;
  let source: LvmVolume;
  let copy: LvmVolume;

  beforeEach(async () => {
    fixture = await createLvmFixture();
  });
  afterEach(() => fixture.cleanUp());

  const stage = (volume: LvmVolume): Promise<MountedLvm> =>
    fixture.storage.stage(volume, SOURCE_BYTES, fixture.mountPathOf(volume));

  /** A mounted source whose last write is in its log alone. */
  async function stageSource(fsType: FsType): Promise<void> {
    source = makeLvmVolume(fsType, "thin");
    await fixture.provide(source, SOURCE_BYTES);
    const { mountPath } = await stage(source);
    execFileSync("sync", ["--file-system", mountPath]);
    const file = openSync(join(mountPath, "written"), "w");
    writeSync(file, WRITTEN);
    fsyncSync(file);
    closeSync(file);
  }

  async function makeCopy(fsType: FsType, sizeBytes = SOURCE_BYTES): Promise<void> {
    copy = makeLvmVolume(fsType, "thin");
    const { lvm } = fixture.lvmd;
    const spec = { nodeName: "a", deviceClass: "thin", size: "1Gi", source: source.handle };
    const asked = tagsOf({ apiVersion: "", kind: "LogicalVolume", metadata: { name: copy.handle }, spec });
    const made = await lvm.make("thin", copy.volumeID, sizeBytes, asked);
    await lvm.copy(lvm.volumeOf("thin", source.volumeID), made);
  }

  const volumeOfCopy = () => fixture.lvmd.lvm.volumeOf("thin", copy.volumeID);
  const hasData = (mountPath: string): boolean => readFileSync(join(mountPath, "written")).equals(WRITTEN);
  const uuidOn = (device: string): string =>
    execFileSync("wipefs", ["--noheadings", "--output", "UUID", device], { encoding: "utf8" }).trim();

  function check(fsType: FsType, device: string): void {
    const [program, ...args] = CHECKS[fsType];
    execFileSync(program, [...args, device], { stdio: "pipe" });
  }

  it.each(FS_TYPES)("of %s is mounted beside its source by its own UUID, with what was fsynced", async (fsType) => {
    await stageSource(fsType);
    await makeCopy(fsType);
    const { device, mountPath } = await stage(copy);
    expect(uuidOn(device)).toBe(copy.fsid);
    expect(hasData(mountPath)).toBe(true);
    expect(volumeOfCopy().tags).not.toContain("tidemark.dev/copy");
    expect(volumeOfCopy().tags).toContain("tidemark.dev/formatted");
    writeFileSync(join(mountPath, "own"), "own");
    expect(() => readFileSync(join(fixture.mountPathOf(source), "own"))).toThrow("ENOENT");
    await fixture.storage.unstage(copy, mountPath);
    check(fsType, device);
    await stage(copy);
    expect(readFileSync(join(mountPath, "own"), "utf8")).toBe("own");
  });

  // ext4 grows only with CAP_SYS_RESOURCE, which a host may lack.
  it.each(["btrfs", "xfs"] as const)("of %s fills a device that is larger than its source", async (fsType) => {
    await stageSource(fsType);
    await makeCopy(fsType, GIB);
    const mounted = await stage(copy);
    expect(await fixture.storage.recover(mounted)).toBe(GIB);
    expect((await fixture.storage.freshReading(mounted)).capacityBytes).toBeGreaterThan(0.9 * GIB);
    expect(hasData(mounted.mountPath)).toBe(true);
  });

  it.each(FS_TYPES)("of a copy of %s gets a UUID of its own, too", async (fsType) => {
    await stageSource(fsType);
    await makeCopy(fsType);
    const first = await stage(copy);
    execFileSync("sync", ["--file-system", first.mountPath]);
    source = copy;
    await makeCopy(fsType);
    const second = await stage(copy);
    expect(uuidOn(second.device)).toBe(copy.fsid);
    expect(hasData(second.mountPath)).toBe(true);
  });

  const diedAt = new Set<string>();

  it.each(FS_TYPES)(
    "of %s is finished after a death of the agent before or after any step",
    async (fsType) => {
      await stageSource(fsType);
      await makeCopy(fsType);
      const passages: string[] = [];
      await mortalStage(undefined, passages);
      expect(passages).toContain("stage/untag-volume/after");
      await fixture.storage.unstage(copy, fixture.mountPathOf(copy));
      for (const deathAt of passages) {
        await makeCopy(fsType);
        await expect(mortalStage(deathAt, [])).rejects.toThrow(deathAt);
        diedAt.add(deathAt);
        const { device, mountPath } = await stage(copy);
        expect(uuidOn(device)).toBe(copy.fsid);
        expect(hasData(mountPath)).toBe(true);
        await fixture.storage.unstage(copy, mountPath);
        check(fsType, device);
      }
    },
    120_000,
  );

  afterAll(() => noteDeaths("copy", { killsAt: [...diedAt], diedAt: [...diedAt] }));

  it.each(ONLY_OF_A_COPY)("was ended before and after %s", (point) => {
    for (const passage of [`${point}/before`, `${point}/after`]) expect(diedAt).toContain(passage);
  });

  async function mortalStage(deathAt: string | undefined, passages: string[]): Promise<void> {
    const pass = (passage: string): void => {
      passages.push(passage);
      if (passage === deathAt) throw new Error(`died at ${passage}`);
    };
    const effects: Effects = {
      run: async (point, effect) => {
        pass(`${point}/before`);
        const result = await effect();
        pass(`${point}/after`);
        return result;
      },
    };
    const { lvm, storage } = await openLvmStorage(fixture.directory, fixture.lvmd.socketPath, effects);
    try {
      await storage.stage(copy, SOURCE_BYTES, fixture.mountPathOf(copy));
    } finally {
      lvm.stop();
    }
  }

  it("of a volume that was never formatted is never formatted either", async () => {
    source = makeLvmVolume("btrfs", "thin");
    await fixture.provide(source, SOURCE_BYTES);
    await makeCopy("btrfs");
    await expect(stage(copy)).rejects.toMatchObject({ code: "AlreadyFormatted" });
    expect(uuidOn(volumeOfCopy().path)).toBe("");
  });

  it("of another filesystem than asked for is left as it is", async () => {
    await stageSource("ext4");
    await makeCopy("btrfs");
    await expect(stage(copy)).rejects.toMatchObject({ code: "WrongFilesystem" });
    expect(uuidOn(volumeOfCopy().path)).toBe(source.fsid);
  });

  it("that has its own UUID by now never gets it again, whatever is on it", async () => {
    await stageSource("btrfs");
    await makeCopy("btrfs");
    const { lvm } = fixture.lvmd;
    lvm.retag(
      volumeOfCopy(),
      volumeOfCopy().tags.filter((tag) => tag !== "tidemark.dev/copy"),
    );
    await expect(stage(copy)).rejects.toMatchObject({ code: "SignatureFound" });
    expect(uuidOn(volumeOfCopy().path)).toBe(source.fsid);
  });

  it("and has lost its filesystem since is not formatted, even with the node's records gone", async () => {
    await stageSource("btrfs");
    await makeCopy("btrfs");
    const { device, mountPath } = await stage(copy);
    await fixture.storage.unstage(copy, mountPath);
    execFileSync("wipefs", ["--quiet", "--all", device]);
    rmSync(fixture.recordDirectory, { recursive: true });
    await expect(stage(copy)).rejects.toMatchObject({ code: "SignatureFound" });
    expect(uuidOn(device)).toBe("");
  });

  it("of btrfs with a damaged superblock is refused, and keeps its bytes", async () => {
    await stageSource("btrfs");
    await makeCopy("btrfs");
    const block = Buffer.alloc(SUPERBLOCK_BYTES);
    const device = openSync(volumeOfCopy().path, "r+");
    readSync(device, block, 0, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET);
    block.writeUInt8(block.readUInt8(0) ^ 1, 0);
    writeSync(device, block, 0, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET);
    fsyncSync(device);
    await expect(stage(copy)).rejects.toThrow("its checksum is wrong");
    const after = Buffer.alloc(SUPERBLOCK_BYTES);
    readSync(device, after, 0, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET);
    closeSync(device);
    expect(after.equals(block)).toBe(true);
  });
});
