// A member file that somebody has made shorter than the filesystem on it.
import { closeSync, openSync, readSync, statSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { storageByBackend } from "../../../src/agent/choose-storage.ts";
import { deviceSizeBytes, mountAt } from "../../../src/agent/storage/filesystem/devices-and-mounts.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import {
  createStorageFixture,
  devicesOf,
  GIB,
  MIB,
  makeShrinkControl,
  makeVolume,
  type StorageFixture,
} from "./storage-fixture.ts";

// On-disk format of btrfs: the second superblock, and the device's size in it.
const SECOND_COPY_BYTES = 64 * MIB;
const DEVICE_BYTES_OFFSET = 0xd1;

describeReal("a member file that was cut by hand", LOOP_PARTS, () => {
  let fixture: StorageFixture;

  beforeEach(() => {
    fixture = createStorageFixture();
  });
  afterEach(() => fixture.cleanUp());

  it.each(["btrfs", "ext4", "xfs"] as const)(
    "while %s on it was not mounted is neither mounted nor attached, and kept as it is",
    async (fsType) => {
      const volume = makeVolume(fsType);
      const mountPath = fixture.mountPathOf(volume);
      const path = fixture.memberPathOf(volume);
      const mounted = await fixture.storage.stage(volume, GIB, mountPath);
      writeFileSync(join(mounted.mountPath, "kept"), "water");
      await fixture.storage.unstage(volume, mountPath);
      truncateSync(path, 1023 * MIB);
      const staging = fixture.storage.stage(volume, GIB, mountPath);
      await expect(staging).rejects.toMatchObject({ code: "MembersMissing" });
      await expect(staging).rejects.toThrow(
        `${path}, or restore a backup: it has ${1023 * MIB} bytes, and its ${fsType} needs ${GIB}`,
      );
      expect(mountAt(mountPath)).toBeUndefined();
      expect(devicesOf(path)).toEqual([]);
      expect(statSync(path).size).toBe(1023 * MIB);
      // Nothing lay there, and nothing was written since.
      truncateSync(path, GIB);
      await fixture.storage.stage(volume, GIB, mountPath);
    },
  );

  it("is whole where a later copy of its superblock is of before a shrink: the kernel mounts by the first", async () => {
    const volume = makeVolume();
    const mountPath = fixture.mountPathOf(volume);
    const path = fixture.memberPathOf(volume);
    await fixture.storage.stage(volume, GIB, mountPath);
    await fixture.storage.unstage(volume, mountPath);
    const file = openSync(path, "r+");
    const bytes = Buffer.alloc(8);
    readSync(file, bytes, 0, 8, SECOND_COPY_BYTES + DEVICE_BYTES_OFFSET);
    expect(bytes.readBigUInt64LE()).toBe(BigInt(GIB));
    bytes.writeBigUInt64LE(BigInt(2 * GIB));
    writeSync(file, bytes, 0, 8, SECOND_COPY_BYTES + DEVICE_BYTES_OFFSET);
    closeSync(file);
    const mounted = await fixture.storage.stage(volume, GIB, mountPath);
    expect((await fixture.storage.freshReading(mounted)).capacityBytes).toBe(GIB);
    expect(await fixture.storage.extend(mounted, 2 * GIB)).toBe(2 * GIB);
  });

  it.each([512 * MIB, 4096, 0])(
    "to %d bytes under a mounted filesystem is not resized, nor is its device",
    async (sizeBytes) => {
      const volume = makeVolume();
      const path = fixture.memberPathOf(volume);
      const storage = storageByBackend(fixture.storage, { lvm: undefined, span: undefined });
      const mounted = await fixture.storage.stage(volume, GIB, fixture.mountPathOf(volume));
      const cut = (): void => truncateSync(path, sizeBytes);
      cut();
      const refused = { code: "MembersMissing" };
      await expect(storage.members(mounted)).rejects.toMatchObject(refused);
      await expect(storage.extend(mounted, 2 * GIB)).rejects.toMatchObject(refused);
      await expect(storage.recover(mounted)).rejects.toMatchObject(refused);
      await expect(storage.shrink(mounted, 300 * MIB, makeShrinkControl())).rejects.toMatchObject(refused);
      expect(statSync(path).size).toBeLessThan(GIB);
      expect(deviceSizeBytes(mounted.device)).toBe(GIB);
      truncateSync(path, GIB);
      expect(await storage.members(mounted)).toEqual([]);
    },
  );
});
