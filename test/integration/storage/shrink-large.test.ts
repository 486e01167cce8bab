// A btrfs of more than 256 GiB has a third copy of its superblock, at that place. A shrink to less leaves it behind the new end, where the
// kernel writes it no more. The member is a sparse file on a sparse host, so that nothing of it needs that much room.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import { createStorageFixture, makeShrinkControl, makeVolume, type StorageFixture } from "./storage-fixture.ts";

const [HOST, LARGE, SMALL] = [900 * GIB, 300 * GIB, 200 * GIB];

describeReal("a btrfs on 300 GiB", LOOP_PARTS, () => {
  let fixture: StorageFixture;

  beforeAll(() => {
    const directory = mkdtempSync("/dev/shm/tidemark-storage-test-");
    const [host, members] = [join(directory, "host.img"), join(directory, "members")];
    mkdirSync(members);
    writeFileSync(host, "");
    truncateSync(host, HOST);
    execFileSync("mkfs.xfs", ["-q", host]);
    execFileSync("mount", ["-o", "loop", host, members]);
    fixture = createStorageFixture(undefined, directory);
  });
  afterAll(() => fixture.cleanUp());

  it("shrinks to 200 GiB, and its member with it, although the superblock's third copy still says 300", async () => {
    const { storage, mountPathOf } = fixture;
    const volume = makeVolume();
    const mounted = await storage.stage(volume, LARGE, mountPathOf(volume));
    const result = await storage.shrink(mounted, SMALL, makeShrinkControl());
    const { capacityBytes } = await storage.freshReading(mounted);
    const memberBytes = statSync(fixture.memberPathOf(volume)).size;
    expect({ ...result, capacityBytes, memberBytes }).toEqual({
      ...{ outcome: "Succeeded", sizeBytes: SMALL, capacityBytes: SMALL, memberBytes: SMALL },
    });
    await storage.unstage(volume, mounted.mountPath);
  });
});
