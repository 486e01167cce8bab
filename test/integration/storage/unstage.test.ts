// Letting go of a volume on real loop devices, whatever became of its member meanwhile.
import { rmSync } from "node:fs";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { mountAt } from "../../../src/agent/storage/filesystem/devices-and-mounts.ts";
import { isLoopAttached } from "../../../src/agent/storage/loop/loop-storage.ts";
import type { MountedLoop } from "../../../src/agent/storage/storage.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import { createStorageFixture, GIB, makeVolume, type StorageFixture } from "./storage-fixture.ts";

describeReal("a mounted volume whose member file was deleted", LOOP_PARTS, () => {
  let fixture: StorageFixture;
  let mounted: MountedLoop;

  beforeEach(async () => {
    fixture = createStorageFixture();
    const volume = makeVolume();
    mounted = await fixture.storage.stage(volume, GIB, fixture.mountPathOf(volume));
    rmSync(fixture.memberPathOf(volume));
  });
  afterEach(() => fixture.cleanUp());

  it("is unmounted and detached by an unstage", async () => {
    await fixture.storage.unstage(mounted, mounted.mountPath);
    expect(mountAt(mounted.mountPath)).toBeUndefined();
    expect(isLoopAttached(mounted.device)).toBe(false);
    await fixture.storage.unstage(mounted, mounted.mountPath);
  });

  it("is found by the next agent, and staged for no further pod", async () => {
    expect(await fixture.storage.find(mounted, mounted.mountPath)).toEqual(mounted);
    await expect(fixture.storage.stage(mounted, GIB, mounted.mountPath)).rejects.toThrow(
      "was deleted while it is mounted",
    );
    await fixture.storage.unstage(mounted, mounted.mountPath);
  });
});
