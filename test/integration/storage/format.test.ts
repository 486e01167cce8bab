// What stage may format and what it must leave alone, on real devices and with real signatures.

import { execFileSync, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeSync,
} from "node:fs";
import { basename, dirname } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { mountAt } from "../../../src/agent/storage/filesystem/devices-and-mounts.ts";
import type { LoopVolume } from "../../../src/agent/storage/storage.ts";
import type { Effects } from "../../../src/platform/process/effects/effects.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import { createStorageFixture, devicesOf, GIB, MIB, makeVolume, type StorageFixture } from "./storage-fixture.ts";

describeReal("stage", LOOP_PARTS, () => {
  let fixture: StorageFixture;
  let volume: LoopVolume;

  beforeEach(() => {
    fixture = createStorageFixture();
    volume = makeVolume();
  });
  afterEach(() => fixture.cleanUp());

  const stage = (sizeBytes = GIB / 2) => fixture.storage.stage(volume, sizeBytes, fixture.mountPathOf(volume));

  function plantMember(make: (path: string) => void): string {
    const path = fixture.memberPathOf(volume);
    closeSync(openSync(path, "wx"));
    truncateSync(path, 320 * MIB);
    make(path);
    return path;
  }

  it.each([
    ["ext4", (path: string) => execFileSync("mkfs.ext4", ["-q", path])],
    ["btrfs of another fsid", (path: string) => execFileSync("mkfs.btrfs", ["-q", "-U", randomUUID(), path])],
    ["xfs", (path: string) => execFileSync("mkfs.xfs", ["-q", path])],
    ["swap", (path: string) => execFileSync("mkswap", [path], { stdio: "ignore" })],
    ["a partition table", writePartitionTable],
    ["data without any signature", (path: string) => writeAt(path, 300 * MIB, "somebody's")],
  ])("never formats a member that carries %s", async (_what, make) => {
    const path = plantMember(make);
    const before = checksum(path);
    await expect(stage()).rejects.toMatchObject({ code: "SignatureFound" });
    await expect(stage()).rejects.toThrow(volume.handle);
    expect(checksum(path)).toBe(before);
  });

  it.each(["ext4", "xfs", "btrfs"] as const)(
    "never formats as %s what has got a signature since it was found bare: no mkfs waits for an answer here",
    async (fsType) => {
      volume = makeVolume(fsType);
      const plant: Effects = {
        run: async (point, effect) => {
          const result = await effect();
          if (point === "stage/record-formatting") execFileSync("mkswap", [fixture.memberPathOf(volume)]);
          return result;
        },
      };
      const late = createStorageFixture(plant, fixture.directory);
      await expect(late.storage.stage(volume, GIB / 2, fixture.mountPathOf(volume))).rejects.toThrow(/swap/);
      const found = execFileSync("blkid", ["-p", "-s", "TYPE", "-o", "value", fixture.memberPathOf(volume)]);
      expect(found.toString().trim()).toBe("swap");
    },
  );

  it("never deletes the member of another volume, whatever a layout names as its file", async () => {
    const { mountPath } = await stage();
    writeAt(`${mountPath}/data`, 0, "another's");
    await fixture.storage.unstage(volume, mountPath);
    const before = checksum(fixture.memberPathOf(volume));
    const thief = { ...makeVolume(), memberFile: volume.memberFile };
    await expect(fixture.storage.remove(thief)).rejects.toMatchObject({ code: "WrongFilesystem" });
    rmSync(fixture.recordPathOf(volume));
    await expect(fixture.storage.remove(thief)).rejects.toMatchObject({ code: "WrongFilesystem" });
    expect(checksum(fixture.memberPathOf(volume))).toBe(before);
    await fixture.storage.remove(volume);
    expect(await fixture.storage.sizeBytes(volume)).toBeUndefined();
  });

  it("formats a new member's filesystem with the recorded fsid", async () => {
    const { device } = await stage();
    const found = execFileSync("blkid", ["-p", "-s", "UUID", "-o", "value", device], { encoding: "utf8" });
    expect(found.trim()).toBe(volume.fsid);
    expect(JSON.parse(readFileSync(fixture.recordPathOf(volume), "utf8"))).toMatchObject({
      volumeUID: volume.volumeUID,
      fsid: volume.fsid,
      state: "mounted",
    });
  });

  it("does not format a member again whose filesystem is gone", async () => {
    const { device, mountPath } = await stage();
    await fixture.storage.unstage(volume, mountPath);
    execFileSync("wipefs", ["--quiet", "--all", fixture.memberPathOf(volume)]);
    await expect(stage()).rejects.toMatchObject({ code: "AlreadyFormatted" });
    expect(device).toMatch(/^\/dev\/loop/);
  });

  it("does not make a member again that was formatted and is gone", async () => {
    const { mountPath } = await stage();
    await fixture.storage.unstage(volume, mountPath);
    renameSync(fixture.memberPathOf(volume), `${fixture.directory}/moved`);
    await expect(stage()).rejects.toMatchObject({ code: "AlreadyFormatted" });
  });

  it("does not mount another volume's member", async () => {
    const { mountPath } = await stage();
    await fixture.storage.unstage(volume, mountPath);
    const other = makeVolume();
    copyFileSync(fixture.memberPathOf(volume), fixture.memberPathOf(other));
    await expect(fixture.storage.stage(other, GIB, fixture.mountPathOf(other))).rejects.toMatchObject({
      code: "SignatureFound",
    });
  });

  it("attaches one loop device only, and uses one that is there", async () => {
    const { mountPath, device } = await stage();
    await fixture.storage.unstage(volume, mountPath);
    expect(devicesOf(fixture.memberPathOf(volume))).toEqual([]);
    const attached = execFileSync("losetup", ["--find", "--show", fixture.memberPathOf(volume)], { encoding: "utf8" });
    expect((await stage()).device).toBe(attached.trim());
    expect(devicesOf(fixture.memberPathOf(volume))).toHaveLength(1);
    expect(device).toMatch(/^\/dev\/loop\d+$/);
  });

  it("does not stage what is mounted somewhere else", async () => {
    await stage();
    const elsewhere = `${fixture.mountPathOf(volume)}-2`;
    await expect(fixture.storage.stage(volume, GIB, elsewhere)).rejects.toMatchObject({ code: "DeviceBusy" });
  });

  it("does not unstage while somebody works in it, and does once they are gone", async () => {
    const { mountPath } = await stage();
    const file = openSync(`${mountPath}/open`, "w");
    await expect(fixture.storage.unstage(volume, mountPath)).rejects.toMatchObject({ code: "DeviceBusy" });
    // Not even from sight: a lazy unmount would take it from there, and let the next writer in before this one is gone.
    expect(mountAt(mountPath)?.fsType).toBe("btrfs");
    expect(existsSync(`${mountPath}/open`)).toBe(true);
    closeSync(file);
    await fixture.storage.unstage(volume, mountPath);
    expect(devicesOf(fixture.memberPathOf(volume))).toEqual([]);
  });

  it("starts again after a record that was written before mkfs", async () => {
    const { mountPath } = await stage();
    await fixture.storage.unstage(volume, mountPath);
    const record = readFileSync(fixture.recordPathOf(volume), "utf8").replace("mounted", "formatting");
    await fixture.storage.remove(volume);
    writeAt(fixture.recordPathOf(volume), 0, record);
    expect((await stage()).fsid).toBe(volume.fsid);
  });

  it("formats nothing while the record of its member cannot be read, and leaves both as they are", async () => {
    plantMember(() => undefined);
    const recordPath = fixture.recordPathOf(volume);
    mkdirSync(dirname(recordPath), { recursive: true });
    symlinkSync(recordPath, recordPath); // whoever reads it gets ELOOP; a rename would replace it
    await expect(stage()).rejects.toMatchObject({ code: "ELOOP" });
    expect(readlinkSync(recordPath)).toBe(recordPath);
    expect(spawnSync("blkid", ["-p", fixture.memberPathOf(volume)], { encoding: "utf8" }).stdout).toBe("");
  });

  it("does not trust a record that it cannot understand", async () => {
    writeAt(fixture.memberPathOf(volume), 0, "");
    const { mountPath } = await stage();
    await fixture.storage.unstage(volume, mountPath);
    rmSync(fixture.recordPathOf(volume));
    writeAt(fixture.recordPathOf(volume), 0, "{ torn");
    await expect(stage()).rejects.toMatchObject({ code: "AlreadyFormatted" });
  });
});

function writeAt(path: string, offsetBytes: number, text: string): void {
  const file = openSync(path, text === "" || offsetBytes === 0 ? "w" : "r+");
  if (text !== "") writeSync(file, text, offsetBytes);
  closeSync(file);
}

/** Of what it holds and where; holes, which is most of a member, are not read. */
function checksum(path: string): string {
  const archive = 'tar --create --sparse --hole-detection=seek --mtime=@0 --directory "$1" "$2" | sha1sum';
  return execFileSync("bash", ["-o", "pipefail", "-c", archive, "bash", dirname(path), basename(path)], {
    encoding: "utf8",
  });
}

// One Linux partition from sector 2048 on, and the two bytes that end a master boot record.
function writePartitionTable(path: string): void {
  const sector = Buffer.alloc(512);
  sector.writeUInt8(0x83, 446 + 4);
  sector.writeUInt32LE(2048, 446 + 8);
  sector.writeUInt32LE(204_800, 446 + 12);
  sector.writeUInt16BE(0x55aa, 510);
  const file = openSync(path, "r+");
  writeSync(file, sector);
  closeSync(file);
}
