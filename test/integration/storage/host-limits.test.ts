// Where the node itself sets the limit: a full host, a missing capability, filesystems other than btrfs, and what statfs hides.

import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { evictionReserveBytes } from "../../../src/agent/config.ts";
import { readExt4Bytes } from "../../../src/agent/storage/filesystem/superblocks.ts";
import { openReader } from "../../../src/agent/storage/in-threads/read-filesystem.ts";
import type { MountedLoop } from "../../../src/agent/storage/storage.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import { eventually } from "../../harness/wait-for.ts";
import {
  createStorageFixture,
  GIB,
  MIB,
  makeShrinkControl,
  makeVolume,
  type StorageFixture,
} from "./storage-fixture.ts";

/** For so many the kernel promises all the metadata that a GiB has, and takes the promise back; 17,000 of them really take it. */
const MERELY_PROMISED_FILES = 2000;

describeReal("storage on a node", LOOP_PARTS, () => {
  let fixture: StorageFixture;

  beforeEach(() => {
    fixture = createStorageFixture();
  });
  afterEach(() => fixture.cleanUp());

  it("promises the host's free bytes once only: neither an extend nor a second member may take them again", async () => {
    fixture = onDiskOf(fixture, "800M");
    const volume = makeVolume();
    const mounted = await fixture.storage.stage(volume, 512 * MIB, fixture.mountPathOf(volume));
    expect(await fixture.storage.freeBytes()).toBeLessThanOrEqual(288 * MIB);
    await expect(fixture.storage.extend(mounted, GIB)).rejects.toMatchObject({ code: "DiskFull" });
    expect(statSync(fixture.memberPathOf(volume)).size).toBe(512 * MIB);
    const second = makeVolume();
    await expect(fixture.storage.stage(second, 512 * MIB, fixture.mountPathOf(second))).rejects.toMatchObject({
      code: "DiskFull",
    });
    expect(await fixture.storage.sizeBytes(second)).toBeUndefined();
    expect(await fixture.storage.extend(mounted, 768 * MIB)).toBe(768 * MIB);
    await fixture.storage.unstage(volume, mounted.mountPath);
    rmSync(fixture.memberPathOf(volume));
  });

  it("leaves free on the host what kubelet's eviction threshold needs, and says so", async () => {
    fixture = onDiskOf(fixture, "800M", (diskBytes) => evictionReserveBytes({ ratio: 0.5 }, diskBytes));
    const volume = makeVolume();
    const mounted = await fixture.storage.stage(volume, 256 * MIB, fixture.mountPathOf(volume));
    const { bavail, bsize } = statfsSync(fixture.memberDirectory);
    expect(bavail * bsize).toBeGreaterThan(700 * MIB);
    expect(await fixture.storage.freeBytes()).toBeLessThan(200 * MIB);
    await expect(fixture.storage.extend(mounted, 600 * MIB)).rejects.toThrow(/--eviction-reserve/);
    await fixture.storage.extend(mounted, 384 * MIB);
    await fixture.storage.unstage(volume, mounted.mountPath);
    rmSync(fixture.memberPathOf(volume));
  });

  it("promises the host's free bytes once only to two volumes that grow at the same instant", async () => {
    fixture = onDiskOf(fixture, "800M");
    const volumes = [makeVolume(), makeVolume()];
    const mounted = await Promise.all(
      volumes.map((volume) => fixture.storage.stage(volume, 256 * MIB, fixture.mountPathOf(volume))),
    );
    const ends = await Promise.allSettled(mounted.map((volume) => fixture.storage.extend(volume, 512 * MIB)));
    expect(ends.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    for (const volume of mounted) {
      await fixture.storage.unstage(volume, volume.mountPath);
      rmSync(fixture.memberPathOf(volume));
    }
  });

  it.each(["before it begins", "between two of its steps"])(
    "ends a shrink of an idle btrfs that others leave no room to move its data in, %s: it stays writable, and shrinks once there is room",
    async (when) => {
      fixture = onDiskOf(fixture, "3G");
      const volume = makeVolume();
      const mounted = await fixture.storage.stage(volume, 2 * GIB, fixture.mountPathOf(volume));
      writeBehind(mounted.mountPath, 500 * MIB, 1000 * MIB);
      const ballast = join(fixture.memberDirectory, "ballast");
      const fillHost = (): void => {
        const { bavail, bsize } = statfsSync(fixture.memberDirectory);
        execFileSync("fallocate", ["-l", String(bavail * bsize - 40 * MIB), ballast]);
      };
      if (when === "before it begins") fillHost();
      const onStep = (): void => {
        if (statSync(ballast, { throwIfNoEntry: false }) === undefined) fillHost();
      };
      const result = await fixture.storage.shrink(mounted, GIB, makeShrinkControl({ onStep }));
      expect(result).toMatchObject({
        outcome: "FloorReached",
        message: expect.stringContaining(`the filesystem of ${fixture.memberDirectory}, which has`),
      });
      expect(result).not.toHaveProperty("usedBytes");
      expect(readFileSync("/proc/mounts", "utf8")).toMatch(new RegExp(`${mounted.mountPath} btrfs rw`));
      rmSync(ballast);
      const { sizeBytes } = await fixture.storage.shrink(mounted, GIB, makeShrinkControl());
      expect(sizeBytes).toBeLessThan(result.sizeBytes);
      await fixture.storage.unstage(volume, mounted.mountPath);
      rmSync(fixture.memberPathOf(volume));
    },
  );

  it("promises what is free to data that moves once only, to two shrinks at the same time", async () => {
    fixture = onDiskOf(fixture, "4G");
    let release: () => void = () => undefined;
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    let moving = false;
    // The first step waits until the second shrink has looked.
    const held = createStorageFixture(
      {
        run: async (point, effect) => {
          const isFirst = point === "shrink/resize-filesystem" && !moving;
          if (isFirst) {
            moving = true;
            await released;
          }
          return effect();
        },
      },
      fixture.directory,
    );
    const volumes = [makeVolume(), makeVolume()];
    const mounted: MountedLoop[] = [];
    for (const volume of volumes) {
      const one = await held.storage.stage(volume, 2 * GIB, held.mountPathOf(volume));
      writeBehind(one.mountPath, 500 * MIB, 1000 * MIB);
      mounted.push(one);
    }
    const [first, second] = mounted as [MountedLoop, MountedLoop];
    const { bavail, bsize } = statfsSync(fixture.memberDirectory);
    const ballast = join(fixture.memberDirectory, "ballast");
    execFileSync("fallocate", ["-l", String(bavail * bsize - 1200 * MIB), ballast]);
    const one = held.storage.shrink(first, GIB, makeShrinkControl());
    await eventually("the first to move data", () => moving);
    // A failure must leave nothing that waits.
    const other = await held.storage.shrink(second, GIB, makeShrinkControl()).finally(release);
    expect(other).toMatchObject({
      outcome: "FloorReached",
      message: expect.stringContaining(`the filesystem of ${fixture.memberDirectory}, which has`),
    });
    expect(other.sizeBytes).toBe(2 * GIB);
    expect((await one).sizeBytes).toBeLessThan(2 * GIB);
    rmSync(ballast);
    const again = await held.storage.shrink(second, GIB, makeShrinkControl());
    expect(again.sizeBytes).toBeLessThan(other.sizeBytes);
    for (const each of mounted) {
      await held.storage.unstage(each, each.mountPath);
      rmSync(fixture.memberPathOf(each));
    }
  });

  it("gives back what was deleted before it says that there is no room", async () => {
    fixture = onDiskOf(fixture, "4G");
    const volume = makeVolume();
    const mounted = await fixture.storage.stage(volume, 3 * GIB, fixture.mountPathOf(volume));
    const deleted = join(mounted.mountPath, "deleted");
    writeFileSync(deleted, Buffer.alloc(900 * MIB, "tide"));
    writeBehind(mounted.mountPath, 500 * MIB, 800 * MIB);
    rmSync(deleted);
    execFileSync("sync", ["-f", mounted.mountPath]);
    const { bavail, bsize } = statfsSync(fixture.memberDirectory);
    const ballast = join(fixture.memberDirectory, "ballast");
    execFileSync("fallocate", ["-l", String(bavail * bsize - 300 * MIB), ballast]);
    const { sizeBytes } = await fixture.storage.shrink(mounted, 2 * GIB, makeShrinkControl());
    expect(sizeBytes).toBeLessThan(3 * GIB);
    await fixture.storage.unstage(volume, mounted.mountPath);
    rmSync(fixture.memberPathOf(volume));
  });

  it("grows xfs while it is mounted, and refuses to shrink it", async () => {
    const volume = makeVolume("xfs");
    const mounted = await fixture.storage.stage(volume, 512 * MIB, fixture.mountPathOf(volume));
    expect(await fixture.storage.extend(mounted, GIB)).toBe(GIB);
    const { capacityBytes, inodesTotal } = await fixture.storage.freshReading(mounted);
    expect(capacityBytes).toBeGreaterThan(900 * MIB);
    expect(inodesTotal).toBeGreaterThan(0);
    await expect(fixture.storage.shrink(mounted, 512 * MIB, makeShrinkControl())).rejects.toThrow("cannot shrink");
    expect(await fixture.storage.sizeBytes(volume)).toBe(GIB);
  });

  it("grows ext4 where the process may, and else says which capability is missing before it changes anything", async () => {
    const volume = makeVolume("ext4");
    const mounted = await fixture.storage.stage(volume, 512 * MIB, fixture.mountPathOf(volume));
    const extended = await fixture.storage.extend(mounted, GIB).catch((error: unknown) => error);
    const { capacityBytes } = await fixture.storage.freshReading(mounted);
    if (extended === GIB) {
      expect(capacityBytes).toBeGreaterThan(900 * MIB);
    } else {
      expect(extended).toMatchObject({ code: "NotPermitted", message: expect.stringContaining("CAP_SYS_RESOURCE") });
      expect(await fixture.storage.sizeBytes(volume)).toBe(512 * MIB);
      expect(capacityBytes).toBeLessThan(512 * MIB);
    }
    await fixture.storage.unstage(volume, mounted.mountPath);
  });

  it("knows without a command that an ext4 fills its member", async () => {
    const volume = makeVolume("ext4");
    const mounted = await fixture.storage.stage(volume, 512 * MIB, fixture.mountPathOf(volume));
    expect(readExt4Bytes(mounted.device)).toBe(512 * MIB);
    expect(await fixture.storage.recover(mounted)).toBe(512 * MIB);
    const half = makeVolume("ext4");
    const other = await fixture.storage.stage(half, 512 * MIB, fixture.mountPathOf(half));
    truncateSync(fixture.memberPathOf(half), GIB);
    const recovered = await fixture.storage.recover(other).catch((error: unknown) => error);
    if (recovered === GIB) expect(readExt4Bytes(other.device)).toBe(GIB);
    else expect(recovered).toMatchObject({ code: "NotPermitted" });
    for (const each of [mounted, other]) await fixture.storage.unstage(each, each.mountPath);
  });

  it("sees buffered writes on btrfs before they are committed", async () => {
    const volume = makeVolume();
    const mounted = await fixture.storage.stage(volume, GIB, fixture.mountPathOf(volume));
    const reader = openReader(mounted);
    const before = reader.read();
    const file = openSync(join(mounted.mountPath, "buffered"), "w");
    for (let written = 0; written < 200; written += 10) writeSync(file, randomBytes(10 * MIB));
    const after = reader.read();
    closeSync(file);
    reader.close();
    expect(after.capacityBytes).toBe(before.capacityBytes);
    expect(before.availableBytes - after.availableBytes).toBeGreaterThanOrEqual(200 * MIB);
    expect(after.dataBytes - before.dataBytes).toBeGreaterThanOrEqual(200 * MIB);
  });

  it("shows nothing available before small files fail on btrfs for want of metadata, and not for what is merely promised to writers", async () => {
    const volume = makeVolume();
    const mounted = await fixture.storage.stage(volume, GIB, fixture.mountPathOf(volume));
    leaveNoChunkFor(mounted.mountPath);
    await fixture.storage.freshReading(mounted);
    const reader = openReader(mounted);
    expect(reader.read().availableBytes).toBeGreaterThan(300 * MIB);
    let made = 0;
    while (reader.read().availableBytes > 0) {
      writeFileSync(join(mounted.mountPath, `small-${made}`), "x".repeat(1800));
      made += 1;
    }
    expect(made).toBeGreaterThan(MERELY_PROMISED_FILES);
    expect(statfsSync(mounted.mountPath).bavail).toBeGreaterThan(0);
    await fixture.storage.extend(mounted, 2 * GIB);
    expect(reader.read().availableBytes).toBeGreaterThan(GIB);
    reader.close();
  });

  it("sees a deletion at once in a fresh reading, and gives its blocks back to the host", async () => {
    const volume = makeVolume();
    const mounted = await fixture.storage.stage(volume, GIB, fixture.mountPathOf(volume));
    writeFileSync(join(mounted.mountPath, "large"), randomBytes(300 * MIB));
    const full = await fixture.storage.freshReading(mounted);
    const allocatedFull = statSync(fixture.memberPathOf(volume)).blocks;
    rmSync(join(mounted.mountPath, "large"));
    const emptied = await fixture.storage.freshReading(mounted);
    expect(emptied.availableBytes - full.availableBytes).toBeGreaterThan(250 * MIB);
    expect(await fixture.storage.trim(mounted)).toBeGreaterThan(250 * MIB);
    expect(statSync(fixture.memberPathOf(volume)).blocks).toBeLessThan(allocatedFull / 4);
  });

  it.each(["btrfs", "ext4", "xfs"] as const)(
    "stops reading %s when it is unmounted, with the reader still open",
    async (fsType) => {
      const volume = makeVolume(fsType);
      const mounted = await fixture.storage.stage(volume, 512 * MIB, fixture.mountPathOf(volume));
      const reader = openReader(mounted);
      expect(reader.read().capacityBytes).toBeGreaterThan(400 * MIB);
      await fixture.storage.unstage(volume, mounted.mountPath);
      expect(() => reader.read()).toThrow();
      reader.close();
    },
  );

  it("does not take another filesystem at the mount path for the volume", async () => {
    const volume = makeVolume();
    const mountPath = fixture.mountPathOf(volume);
    const mounted = await fixture.storage.stage(volume, 512 * MIB, mountPath);
    await fixture.storage.unstage(volume, mounted.mountPath);
    mkdirSync(mountPath, { recursive: true });
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1M", "tidemark-test", mountPath]);
    await expect(fixture.storage.find(volume, mountPath)).rejects.toMatchObject({ code: "WrongFilesystem" });
    await expect(fixture.storage.stage(volume, 512 * MIB, mountPath)).rejects.toMatchObject({
      code: "WrongFilesystem",
    });
    await expect(fixture.storage.unstage(volume, mountPath)).rejects.toMatchObject({ code: "WrongFilesystem" });
  });

  it("does not take over another volume's mounted member, whatever a layout says", async () => {
    const volume = makeVolume();
    const mounted = await fixture.storage.stage(volume, 512 * MIB, fixture.mountPathOf(volume));
    const forged = { ...makeVolume(), memberFile: volume.memberFile };
    const refusal = { code: "WrongFilesystem", message: expect.stringContaining(volume.volumeUID) };
    await expect(fixture.storage.find(forged, mounted.mountPath)).rejects.toMatchObject(refusal);
    await expect(fixture.storage.stage(forged, GIB, mounted.mountPath)).rejects.toMatchObject(refusal);
    expect(await fixture.storage.find(volume, mounted.mountPath)).toEqual(mounted);
    await fixture.storage.unstage(volume, mounted.mountPath);
  });

  it("says that a filesystem is read-only instead of handing it out", async () => {
    const volume = makeVolume();
    const mounted = await fixture.storage.stage(volume, 512 * MIB, fixture.mountPathOf(volume));
    execFileSync("mount", ["-o", "remount,ro", mounted.mountPath]);
    await expect(fixture.storage.stage(volume, 512 * MIB, mounted.mountPath)).rejects.toMatchObject({
      code: "ReadOnly",
    });
    await fixture.storage.unstage(volume, mounted.mountPath);
    expect((await fixture.storage.stage(volume, 512 * MIB, mounted.mountPath)).device).toBeTruthy();
  });
});

/** Its members on a disk of their own, with which its storage begins. */
function onDiskOf(
  { directory, memberDirectory }: StorageFixture,
  size: string,
  reserveBytes?: (diskBytes: number) => number,
): StorageFixture {
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tidemark-test", memberDirectory]);
  return createStorageFixture(directEffects, directory, reserveBytes);
}

/** Data chunks take all of the device, and four of five files in them are gone again: of each chunk, which has more than five, one stays. */
function leaveNoChunkFor(mountPath: string): void {
  const fill = `i=0; while fallocate --length ${8 * MIB} "$1/data-$i" 2>/dev/null; do i=$((i + 1)); done; echo $i`;
  const filled = Number(execFileSync("sh", ["-c", fill, "sh", mountPath], { encoding: "utf8" }));
  expect(filled).toBeGreaterThan(90);
  for (let index = 0; index <= filled; index += 1) if (index % 5 !== 0) rmSync(join(mountPath, `data-${index}`));
}

/** So many bytes of files, behind a place that is free again afterwards: a shrink has to move them. */
function writeBehind(mountPath: string, bytes: number, placeBytes: number): void {
  const ballast = join(mountPath, "ballast");
  execFileSync("fallocate", ["-l", String(placeBytes), ballast]);
  execFileSync("sync", ["-f", mountPath]);
  for (let index = 0; index < bytes / (10 * MIB); index += 1)
    execFileSync("fallocate", ["-l", String(10 * MIB), join(mountPath, `file-${index}`)]);
  execFileSync("sync", ["-f", mountPath]);
  rmSync(ballast);
  execFileSync("sync", ["-f", mountPath]);
}
