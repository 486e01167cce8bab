// Shrinks of unmounted ext4 in thin pools over the fake lvmd: when none is begun, and what becomes of one after a reboot. Real filesystems.
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, beforeEach, expect, it } from "@jest/globals";
import { readExt4Bytes, readExt4State } from "../../../src/agent/storage/filesystem/superblocks.ts";
import type { LvmVolume } from "../../../src/agent/storage/storage.ts";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { THIN_POOL } from "../../builders/device-class.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import { createLvmFixture, type LvmFixture, makeLvmVolume } from "./lvm-fixture.ts";
import { MIB, makeShrinkControl } from "./storage-fixture.ts";

describeReal("a shrink of an unmounted ext4 in a thin pool", LOOP_PARTS, () => {
  let fixture: LvmFixture;
  let volume: LvmVolume;

  beforeAll(async () => {
    fixture = await createLvmFixture();
    mkdirSync(fixture.recordDirectory);
  });
  beforeEach(async () => {
    volume = await unmounted();
  });
  afterAll(() => fixture.cleanUp());

  async function unmounted(mkfs: readonly string[] = []): Promise<LvmVolume> {
    const made = makeLvmVolume("ext4", "thin");
    await fixture.provide(made, 2 * GIB);
    execFileSync("mkfs.ext4", ["-q", "-F", "-U", made.fsid, ...mkfs, deviceOf(made)]);
    return made;
  }

  const deviceOf = ({ volumeID }: LvmVolume): string => fixture.lvmd.lvm.volumeOf("thin", volumeID).path;
  const bytesOf = (of: LvmVolume): { volume: number; filesystem: number | undefined } => ({
    volume: fixture.lvmd.lvm.volumeOf("thin", of.volumeID).sizeBytes,
    filesystem: readExt4Bytes(deviceOf(of)),
  });
  const shrink = (of: LvmVolume, sizeBytes = GIB) =>
    fixture.storage.shrinkUnmounted(of, sizeBytes, makeShrinkControl());
  function mountByHand(of: LvmVolume): void {
    const path = join(fixture.directory, "by-hand");
    mkdirSync(path, { recursive: true });
    execFileSync("mount", [deviceOf(of), path]);
    execFileSync("umount", [path]);
  }
  const recordsOf = ({ volumeID }: LvmVolume): string[] =>
    readdirSync(fixture.recordDirectory).filter((name) => name.startsWith(volumeID));

  it("is not begun while another one may take what the pool has left", async () => {
    // 3.2 Mi of metadata for each, of 4.7: of data there is enough for both.
    fixture.lvmd.setClass("thin", { thinPool: { ...THIN_POOL, metadataSizeBytes: 6 * MIB, metadataPercent: 20 } });
    const other = await unmounted();
    let refused: unknown;
    fixture.lvmd.before.set("ReduceLV", async () => {
      fixture.lvmd.before.clear();
      refused = await shrink(other);
    });
    expect(await shrink(volume)).toEqual({ outcome: "Succeeded", sizeBytes: GIB });
    expect(refused).toMatchObject({
      outcome: "Refused",
      message: expect.stringContaining("of the thin pool's metadata"),
    });
    expect(bytesOf(other)).toEqual({ volume: 2 * GIB, filesystem: 2 * GIB });
    expect(await shrink(other)).toEqual({ outcome: "Succeeded", sizeBytes: GIB });
    fixture.lvmd.setClass("thin", { thinPool: THIN_POOL });
  });

  it("is not begun where the time of its last mount has not come yet: another mount would look the same", async () => {
    execFileSync("debugfs", ["-w", "-R", "set_super_value mtime 20991231000000", deviceOf(volume)], {
      stdio: "ignore",
    });
    const message = expect.stringContaining("in the future by the node's clock");
    expect(await shrink(volume)).toEqual({ outcome: "Refused", sizeBytes: 2 * GIB, message });
    expect(recordsOf(volume)).toEqual([]);
    expect(fixture.lvmd.lvm.volumeOf("thin", volume.volumeID).tags).not.toContain("tidemark.dev/unmounted-shrink");
  });

  it("may come out a little smaller, where ext4 leaves out a last group that is too small for its own tables", async () => {
    const dense = await unmounted(["-b", "4096", "-i", "4096"]);
    expect(await shrink(dense, GIB + 4 * MIB)).toEqual({ outcome: "Succeeded", sizeBytes: GIB + 4 * MIB });
    expect(bytesOf(dense)).toEqual({ volume: GIB + 4 * MIB, filesystem: GIB });
  });

  it("stays taken back where a power cut brings its record back, after the filesystem was mounted again", async () => {
    const path = join(fixture.recordDirectory, `${volume.volumeID}.unmounted-shrink.json`);
    let record: string | undefined;
    fixture.lvmd.before.set("WipeAndRemoveLV", async () => {
      record = readFileSync(path, "utf8");
    });
    const cancel = new AbortController();
    fixture.lvmd.before.set("CreateLVSnapshot", async () => cancel.abort("taken back"));
    const { signal } = cancel;
    expect(await fixture.storage.shrinkUnmounted(volume, GIB, makeShrinkControl({ signal }))).toMatchObject({
      outcome: "Refused",
    });
    fixture.lvmd.before.clear();
    const mountPath = fixture.mountPathOf(volume);
    for (let mount = 0; mount < 2; mount += 1) {
      await fixture.storage.stage(volume, 0, mountPath);
      writeFileSync(join(mountPath, "kept"), "water");
      await fixture.storage.unstage(volume, mountPath);
      if (record !== undefined) writeFileSync(path, record);
    }
    await fixture.storage.stage(volume, 0, mountPath);
    expect(readFileSync(join(mountPath, "kept"), "utf8")).toBe("water");
    await fixture.storage.unstage(volume, mountPath);
    expect(recordsOf(volume)).not.toContain(`${volume.volumeID}.unmounted-shrink.json`);
  });

  it.each([true, false])(
    "is never taken back once the filesystem was mounted again, also in the second of its last mount by a clock that began anew (mounted: %p)",
    async (isMounted) => {
      mountByHand(volume);
      const mountedAt = readExt4State(deviceOf(volume))?.mountedAtSeconds ?? 0;
      const cancel = new AbortController();
      fixture.lvmd.before.set("CreateLVSnapshot", async () => {
        fixture.lvmd.refusals.set("GetVolume", { code: status.UNAVAILABLE, details: "power cut" });
        cancel.abort("power cut");
      });
      const { signal } = cancel;
      const shrinking = fixture.storage.shrinkUnmounted(volume, GIB, makeShrinkControl({ signal }));
      await expect(shrinking).rejects.toThrow("power cut");
      fixture.lvmd.before.clear();
      fixture.lvmd.refusals.clear();
      if (isMounted) {
        mountByHand(volume);
        execFileSync("debugfs", ["-w", "-R", `set_super_value mtime @${mountedAt}`, deviceOf(volume)], {
          stdio: "ignore",
        });
        expect(readExt4State(deviceOf(volume))).toMatchObject({ mountedAtSeconds: mountedAt, mountCount: 1 });
        await expect(fixture.storage.finishUnmounted(volume)).rejects.toThrow(/mounted since/);
        // Nothing else stood in the way.
        execFileSync("tune2fs", ["-C", "0", deviceOf(volume)], { stdio: "ignore" });
      }
      await fixture.storage.finishUnmounted(volume);
      expect(bytesOf(volume)).toEqual({ volume: 2 * GIB, filesystem: 2 * GIB });
      expect(recordsOf(volume)).toEqual([]);
    },
  );

  it.each([
    ["taken back", "GetVolume", true, 2 * GIB],
    ["ended", "ReduceLV", false, GIB],
  ])("is %s after a reboot that has not activated its volume", async (_what, away, isAborted, sizeBytes) => {
    const cancel = new AbortController();
    fixture.lvmd.before.set("CreateLVSnapshot", async () => {
      for (const method of [away, "CancelReduce"])
        fixture.lvmd.refusals.set(method, { code: status.UNAVAILABLE, details: "power cut" });
      if (isAborted) cancel.abort("power cut");
    });
    const { signal } = cancel;
    const shrinking = fixture.storage.shrinkUnmounted(volume, GIB, makeShrinkControl({ signal }));
    await expect(shrinking).rejects.toThrow("power cut");
    expect(recordsOf(volume)).toContain(`${volume.volumeID}.unmounted-shrink.json`);
    fixture.lvmd.before.clear();
    fixture.lvmd.refusals.clear();
    await fixture.lvmd.lvm.setActive(volume.volumeID, false);
    await fixture.storage.finishUnmounted(volume);
    expect(bytesOf(volume)).toEqual({ volume: sizeBytes, filesystem: sizeBytes });
    expect(recordsOf(volume)).toEqual([]);
    expect(fixture.lvmd.lvm.volumes().filter(({ name }) => name.startsWith("before-shrink"))).toEqual([]);
  });
});
