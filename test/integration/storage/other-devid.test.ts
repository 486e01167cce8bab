// A btrfs whose one device is not its first: its number is asked of the filesystem, never assumed.
import { execFileSync } from "node:child_process";
import { closeSync, openSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { MountedLoop } from "../../../src/agent/storage/storage.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import { createStorageFixture, GIB, makeShrinkControl, makeVolume, type StorageFixture } from "./storage-fixture.ts";

describeReal("a btrfs whose one device has the number 3", LOOP_PARTS, () => {
  let fixture: StorageFixture;
  let mounted: MountedLoop;

  beforeEach(async () => {
    fixture = createStorageFixture();
    const volume = makeVolume();
    mounted = await fixture.storage.stage(volume, GIB, fixture.mountPathOf(volume));
    const file = join(fixture.memberDirectory, "meanwhile");
    closeSync(openSync(file, "wx"));
    truncateSync(file, GIB);
    const other = execFileSync("losetup", ["--find", "--show", file], { encoding: "utf8" }).trim();
    const btrfs = (...args: readonly string[]): unknown => execFileSync("btrfs", [...args, mounted.mountPath]);
    btrfs("device", "add", other);
    btrfs("device", "remove", "1");
    btrfs("device", "add", mounted.device);
    btrfs("device", "remove", "2");
    execFileSync("losetup", ["--detach", other]);
  });
  afterEach(() => fixture.cleanUp());

  const sizes = async (): Promise<number[]> => [
    (await fixture.storage.freshReading(mounted)).capacityBytes,
    statSync(fixture.memberPathOf(mounted)).size,
  ];

  it("is extended and shrunk like any other", async () => {
    expect(await fixture.storage.extend(mounted, 3 * GIB)).toBe(3 * GIB);
    expect(await sizes()).toEqual([3 * GIB, 3 * GIB]);
    const shrunk = await fixture.storage.shrink(mounted, 2 * GIB, makeShrinkControl());
    expect(shrunk).toEqual({ outcome: "Succeeded", sizeBytes: 2 * GIB });
    expect(await sizes()).toEqual([2 * GIB, 2 * GIB]);
  });
});
