// The power goes while the commit that adds a member writes its superblocks: on some devices it has, on others it has not. Real btrfs over a
// real CSI node plugin; the images are those right after that commit, and the superblocks of some are those right before it. Between the two
// nothing else of a device changes that the older superblock still needs: btrfs writes its trees beside the old ones, and before either.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { SpanMember } from "../../../src/agent/member-drivers/span-member.ts";
import { btrfsSuperblockRanges } from "../../../src/agent/storage/filesystem/superblocks.ts";
import type { MountedSpan, SpanVolume } from "../../../src/agent/storage/storage.ts";
import type { Effects } from "../../../src/platform/process/effects/effects.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import {
  bytesOf,
  createSpanFixture,
  DRIVER,
  makeMember,
  makeSpan,
  restore,
  type SpanFixture,
  spanStorageIn,
  withMembers,
} from "./span-fixture.ts";
import { GIB } from "./storage-fixture.ts";

const RANGES = btrfsSuperblockRanges(GIB);

describeReal("a span that gets a member when the power goes between two superblocks", LOOP_PARTS, () => {
  let fixture: SpanFixture;
  let volume: SpanVolume;
  let mountPath: string;
  let m0: SpanMember;
  let m1: SpanMember;
  /** Of each device before the commit, where its superblocks are. */
  let before: Map<SpanMember, Buffer[]>;

  beforeEach(async () => {
    fixture = await createSpanFixture();
    [m0, m1] = [{ ...makeMember(fixture, "m0", GIB), wasInside: true }, makeMember(fixture, "m1", GIB)];
    volume = { ...makeSpan([m0, m1]), formatted: true };
    mountPath = fixture.mountPathOf(volume);
    await addUnderWatch();
  });
  afterEach(() => fixture.cleanUp());

  const fileOf = (member: SpanMember): string => fixture.fileOf(member);
  const imageOf = (member: SpanMember): string => join(fixture.directory, `${member.name}.after`);
  const copy = (from: string, to: string): void => {
    execFileSync("cp", ["--sparse=always", from, to]);
  };

  /** What is on the devices right before and right after the commit that adds m1; then it is let go of. */
  async function addUnderWatch(): Promise<void> {
    const { storage } = fixture;
    const mounted = await storage.stage(withMembers({ ...volume, formatted: false }, [m0]), 0, mountPath);
    writeFileSync(join(mountPath, "kept"), "water");
    before = new Map();
    const effects: Effects = {
      run: async (point, effect) => {
        if (point !== "span/add-device") return effect();
        execFileSync("sync", ["--file-system", mountPath]);
        for (const member of [m0, m1]) before.set(member, superblocksOf(member));
        const result = await effect();
        for (const member of [m0, m1]) copy(fileOf(member), imageOf(member));
        return result;
      },
    };
    const both = withMembers(mounted, [m0, m1]);
    expect(await spanStorageIn(fixture.directory, effects).extend(both, 2 * GIB)).toBe(2 * GIB);
    await storage.unstage(both, mountPath);
  }

  function superblocksOf(member: SpanMember): Buffer[] {
    return RANGES.map(({ offsetBytes, lengthBytes }) => bytesOf(fileOf(member), offsetBytes, lengthBytes));
  }

  /** The power has gone: these devices have their superblocks of before the commit, the others those of after it. */
  function cut(older: readonly SpanMember[]): void {
    for (const member of [m0, m1]) copy(imageOf(member), fileOf(member));
    for (const member of older)
      for (const [index, { offsetBytes }] of RANGES.entries()) {
        const block = before.get(member)?.[index];
        if (block === undefined) throw new Error(`bug: ${member.name} was not looked at before`);
        restore(fileOf(member), block, offsetBytes);
      }
  }

  const stage = (members: readonly SpanMember[]): Promise<MountedSpan> =>
    fixture.storage.stage(withMembers(volume, members), 0, mountPath);
  const sizeOf = async (mounted: MountedSpan): Promise<number> =>
    (await fixture.storage.freshReading(mounted)).capacityBytes;
  const kept = (): string => readFileSync(join(mountPath, "kept"), "utf8");
  const isMounted = (): boolean => existsSync(`/sys/fs/btrfs/${volume.fsid}`);

  it("goes on without the member where no superblock was written, and takes it in then", async () => {
    cut([m0, m1]);
    const mounted = await stage([m0, m1]);
    expect([await sizeOf(mounted), kept()]).toEqual([GIB, "water"]);
    expect(await fixture.storage.extend(mounted, 2 * GIB)).toBe(2 * GIB);
    expect(kept()).toBe("water");
  });

  it("has the member where both were written, also where nobody has heard of it", async () => {
    cut([]);
    const mounted = await stage([m0, m1]);
    expect([await sizeOf(mounted), kept()]).toEqual([2 * GIB, "water"]);
  });

  it("goes on without the member where its superblock alone was written, and never takes that one", async () => {
    cut([m0]);
    const mounted = await stage([m0, m1]);
    expect([await sizeOf(mounted), kept()]).toEqual([GIB, "water"]);
    writeFileSync(join(mountPath, "later"), "water");
    await expect(fixture.storage.extend(mounted, 2 * GIB)).rejects.toMatchObject({ code: "SignatureFound" });
    await fixture.storage.unstage(mounted, mountPath);
    // Nor where it is gone by then.
    const again = await stage([m0, m1]);
    expect([await sizeOf(again), kept()]).toEqual([GIB, "water"]);
    const m2 = makeMember(fixture, "m2", GIB);
    expect(await fixture.storage.extend(withMembers(again, [m0, m2]), 2 * GIB)).toBe(2 * GIB);
  });

  it("is not mounted where all but the member's were written, and nothing is changed; it is mended by hand as the page says", async () => {
    cut([m1]);
    const left = superblocksOf(m0);
    await expect(stage([m0, m1])).rejects.toMatchObject({
      code: "MembersMissing",
      message: expect.stringContaining(`not on member m1 (volume ${m1.volume?.volumeHandle} of driver ${DRIVER}`),
    });
    expect([isMounted(), superblocksOf(m0)]).toEqual([false, left]);
    const device = execFileSync("losetup", ["--find", "--show", fileOf(m0)], { encoding: "utf8" }).trim();
    try {
      execFileSync("mount", ["-t", "btrfs", "-o", "degraded", device, mountPath]);
      execFileSync("btrfs", ["device", "remove", "missing", mountPath]);
      execFileSync("umount", [mountPath]);
    } finally {
      execFileSync("losetup", ["--detach", device]);
    }
    const mounted = await stage([m0, m1]);
    expect([await sizeOf(mounted), kept()]).toEqual([GIB, "water"]);
    expect(await fixture.storage.extend(mounted, 2 * GIB)).toBe(2 * GIB);
  });
});
