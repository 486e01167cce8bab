// A user who converts the profile of the data: what the filesystem has by statfs is a part of what its devices have then. Real btrfs.
import { execFileSync } from "node:child_process";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { readProfiles } from "../../../src/agent/storage/btrfs/immovable-data.ts";
import { deviceBytesOf } from "../../../src/agent/storage/filesystem/mount-reader.ts";
import { openReader } from "../../../src/agent/storage/in-threads/read-filesystem.ts";
import type { MountedLoop } from "../../../src/agent/storage/storage.ts";
import { copiesOf, describeProfiles } from "../../../src/contracts/formulas/data-profiles.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import { createSpanFixture, leaving, makeMember, makeSpan, withMembers } from "./span-fixture.ts";
import {
  createStorageFixture,
  GIB,
  MIB,
  makeShrinkControl,
  makeVolume,
  type StorageFixture,
} from "./storage-fixture.ts";

const SHRINK_REFUSED = /convert its data back from dup, since only single .*-dconvert=single/;

describeReal("a filesystem whose user has converted its data", LOOP_PARTS, () => {
  let fixture: StorageFixture;
  let mounted: MountedLoop;

  beforeEach(async () => {
    fixture = createStorageFixture();
    const volume = makeVolume();
    mounted = await fixture.storage.stage(volume, 2 * GIB, fixture.mountPathOf(volume));
  });
  afterEach(() => fixture.cleanUp());

  const write = (megabytes: number): void => writeAt(mounted.mountPath, megabytes);
  const convert = (...filters: string[]): void => balance(mounted.mountPath, ...filters);

  it("to dup is extended to the size asked for, of which half is shown, and no second extend follows", async () => {
    write(200);
    convert("-dconvert=dup");
    const before = await fixture.storage.freshReading(mounted);
    expect(before).toMatchObject({ capacityBytes: GIB });
    expect(describeProfiles(before.dataProfiles)).toBe("dup");
    expect(await fixture.storage.extend(mounted, 3 * GIB)).toBe(3 * GIB);
    const after = await fixture.storage.freshReading(mounted);
    expect(deviceBytesOf(after)).toBe(3 * GIB);
    expect(after.availableBytes - before.availableBytes).toBeGreaterThan(480 * MIB);
    expect(after.availableBytes - before.availableBytes).toBeLessThanOrEqual(512 * MIB);
    expect(await fixture.storage.recover(mounted)).toBe(3 * GIB);
    expect(await fixture.storage.sizeBytes(mounted)).toBe(3 * GIB);
  });

  it("to dup has room for metadata as long as its devices have", async () => {
    write(200);
    convert("-dconvert=dup");
    const { availableBytes } = await fixture.storage.freshReading(mounted);
    expect(availableBytes).toBeGreaterThan(400 * MIB);
  });

  it("in part has the bytes that its devices have, too", async () => {
    await fixture.storage.extend(mounted, 3 * GIB);
    write(300);
    convert("-dconvert=dup");
    convert("-dconvert=single,limit=1");
    expect(readProfiles(mounted.fsid, "data").sort()).toEqual(["dup", "single"]);
    const reader = openReader(mounted);
    const reading = reader.read();
    reader.close();
    expect(copiesOf(reading.dataProfiles)).toBe(2);
    expect(deviceBytesOf(reading)).toBe(3 * GIB);
    expect(await fixture.storage.extend(mounted, 4 * GIB)).toBe(4 * GIB);
  });

  it("is not made smaller, which names the profile, before the data is converted back", async () => {
    convert("-dconvert=dup");
    const refused = await fixture.storage.shrink(mounted, GIB, makeShrinkControl());
    expect(refused).toMatchObject({
      outcome: "FloorReached",
      sizeBytes: 2 * GIB,
      floorBytes: 2 * GIB,
      usedBytes: expect.any(Number),
      message: expect.stringMatching(SHRINK_REFUSED),
    });
    expect(await fixture.storage.sizeBytes(mounted)).toBe(2 * GIB);
    convert("-dconvert=single");
    expect(await fixture.storage.shrink(mounted, GIB, makeShrinkControl())).toMatchObject({ outcome: "Succeeded" });
  });

  it("is not made smaller where its metadata has no second copy any more", async () => {
    convert("--force", "-mconvert=single");
    const refused = await fixture.storage.shrink(mounted, GIB, makeShrinkControl());
    expect(refused).toMatchObject({ outcome: "FloorReached", sizeBytes: 2 * GIB });
    expect(refused).toHaveProperty(
      "message",
      expect.stringMatching(/convert its metadata back from single, since only dup/),
    );
  });
});

describeReal("a span whose user has converted its data to raid1", LOOP_PARTS, () => {
  it("gets the member that an extend needs and no more, and none leaves it", async () => {
    const fixture = await createSpanFixture();
    try {
      const [m0, m1] = [makeMember(fixture, "m0", GIB), makeMember(fixture, "m1", GIB)];
      const [m2, m3] = [makeMember(fixture, "m2", GIB), makeMember(fixture, "m3", GIB)];
      const volume = makeSpan([m0]);
      const first = await fixture.storage.stage(volume, 0, fixture.mountPathOf(volume));
      const two = withMembers(first, [m0, m1]);
      expect(await fixture.storage.extend(two, 2 * GIB)).toBe(2 * GIB);
      writeAt(two.mountPath, 100);
      balance(two.mountPath, "-dconvert=raid1");
      expect(await fixture.storage.freshReading(two)).toMatchObject({ capacityBytes: GIB });
      const four = withMembers(two, [m0, m1, m2, m3]);
      expect(await fixture.storage.extend(four, 3 * GIB)).toBe(3 * GIB);
      expect((await fixture.storage.members(four)).map(({ name }) => name)).toEqual(["m0", "m1", "m2"]);
      expect(await fixture.storage.recover(four)).toBe(3 * GIB);
      const three = withMembers(four, [m0, m1, leaving(m2)]);
      expect(await fixture.storage.shrink(three, 2 * GIB, makeShrinkControl())).toMatchObject({
        outcome: "FloorReached",
        sizeBytes: 3 * GIB,
        message: expect.stringMatching(/member m2 \(1Gi\) stays: /),
      });
      expect((await fixture.storage.members(three)).map(({ state }) => state)).toEqual(Array(3).fill("Present"));
    } finally {
      await fixture.cleanUp();
    }
  });
});

function writeAt(mountPath: string, megabytes: number): void {
  execFileSync("dd", [
    "if=/dev/urandom",
    `of=${mountPath}/data`,
    "bs=1M",
    `count=${megabytes}`,
    "conv=fsync",
    "status=none",
  ]);
}

function balance(mountPath: string, ...filters: string[]): void {
  execFileSync("btrfs", ["balance", "start", ...filters, mountPath], { stdio: "pipe" });
}

describeReal("a span whose user has converted its metadata to raid1", LOOP_PARTS, () => {
  it("gives back a member that holds nothing, and none with data", async () => {
    const fixture = await createSpanFixture();
    try {
      const [m0, m1, m2] = [0, 1, 2].map((index) => makeMember(fixture, `m${index}`, GIB));
      if (m0 === undefined || m1 === undefined || m2 === undefined) throw new Error("bug: three members");
      const volume = makeSpan([m0]);
      const first = await fixture.storage.stage(volume, 0, fixture.mountPathOf(volume));
      const two = withMembers(first, [m0, m1]);
      expect(await fixture.storage.extend(two, 2 * GIB)).toBe(2 * GIB);
      balance(two.mountPath, "-mconvert=raid1");
      const three = withMembers(two, [m0, m1, m2]);
      expect(await fixture.storage.extend(three, 3 * GIB)).toBe(3 * GIB);
      const leave = (...members: Parameters<typeof withMembers>[1]) =>
        fixture.storage.shrink(withMembers(three, members), GIB, makeShrinkControl());
      expect(await leave(m0, leaving(m1), leaving(m2))).toMatchObject({
        outcome: "FloorReached",
        sizeBytes: 2 * GIB,
        message: expect.stringMatching(
          /member m1 \(1Gi\) stays: .* would be moved; convert its metadata back from raid1/,
        ),
      });
    } finally {
      await fixture.cleanUp();
    }
  });
});
