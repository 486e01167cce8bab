// What a span does where a member's device is not what it was: another disk at its path, an older state of it, a copy, one that is gone,
// one that the kernel calls by another name. Real btrfs over a real CSI node plugin; nothing is mounted, formatted or wiped by mistake.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { SpanMember } from "../../../src/agent/member-drivers/span-member.ts";
import { mountAt } from "../../../src/agent/storage/filesystem/devices-and-mounts.ts";
import type { SpanStorage } from "../../../src/agent/storage/span/span-storage.ts";
import type { MountedSpan, SpanVolume } from "../../../src/agent/storage/storage.ts";
import { makeNode } from "../../harness/loop-member-driver.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import {
  bytesOf,
  createSpanFixture,
  DRIVER,
  leaving,
  makeMember,
  makeSpan,
  NO_DISK,
  restore,
  type SpanFixture,
  withMembers,
} from "./span-fixture.ts";
import { GIB, MIB, makeShrinkControl } from "./storage-fixture.ts";

const FIRST_COPY_BYTES = 64 * 1024;
const SECOND_COPY_BYTES = 64 * MIB;
const SUPERBLOCK_BYTES = 4096;
/** struct btrfs_super_block */
const GENERATION_OFFSET = 0x48;
const DEVID_OFFSET = 0xc9;

describeReal("a span whose members' devices are not what they were", LOOP_PARTS, () => {
  let fixture: SpanFixture;
  let storage: SpanStorage;
  let m0: SpanMember;
  let m1: SpanMember;
  let volume: SpanVolume;
  let mountPath: string;

  beforeEach(async () => {
    fixture = await createSpanFixture();
    storage = fixture.storage;
    m0 = makeMember(fixture, "m0", GIB);
    m1 = makeMember(fixture, "m1", GIB);
    volume = makeSpan([m0, m1]);
    mountPath = fixture.mountPathOf(volume);
  });
  afterEach(() => fixture.cleanUp());

  const stage = (members: readonly SpanMember[]): Promise<MountedSpan> =>
    storage.stage(withMembers(volume, members), 0, mountPath);
  const capacity = async (mounted: MountedSpan): Promise<number> => (await storage.freshReading(mounted)).capacityBytes;
  const publishedPath = ({ name }: SpanMember): string => join(fixture.deviceDirectory, volume.handle, name, "device");
  const superblockOf = (member: SpanMember): Buffer =>
    bytesOf(fixture.fileOf(member), FIRST_COPY_BYTES, SUPERBLOCK_BYTES);
  const recordPath = (): string => join(fixture.recordDirectory, `${volume.handle}.span.json`);
  const record = (): { removals: unknown[] } =>
    JSON.parse(readFileSync(recordPath(), "utf8")) as { removals: unknown[] };
  const devices = (): string[] => readdirSync(`/sys/fs/btrfs/${volume.fsid}/devices`);
  const isEmpty = (member: SpanMember): boolean => superblockOf(member).every((byte) => byte === 0);

  /** Both in the filesystem, as their node has reported them. */
  async function stageBoth(): Promise<MountedSpan> {
    const mounted = withMembers(await stage([m0]), [m0, m1]);
    await storage.extend(mounted, 2 * GIB);
    const found = await storage.members(mounted);
    const reported = ({ name }: SpanMember): SpanMember["reported"] => {
      const { devid = 0, deviceUUID = "" } = found.find((each) => each.name === name) ?? {};
      return { devid, deviceUUID };
    };
    m0 = { ...m0, wasInside: true, reported: reported(m0) };
    m1 = { ...m1, wasInside: true, reported: reported(m1) };
    return withMembers(mounted, [m0, m1]);
  }

  it("is not mounted from members whose paths lead to each other's disks, and says which was expected", async () => {
    await storage.unstage(await stageBoth(), mountPath);
    const swapped = [
      { ...m0, volume: m1.volume },
      { ...m1, volume: m0.volume },
    ] as SpanMember[];
    await expect(stage(swapped)).rejects.toMatchObject({
      code: "WrongFilesystem",
      message: expect.stringMatching(
        new RegExp(
          `driver of ${m0.claim}: device 2 \\(${m1.reported?.deviceUUID}\\) came, not 1 \\(${m0.reported?.deviceUUID}`,
        ),
      ),
    });
    expect(mountAt(mountPath)).toBeUndefined();
    await storage.unstage(withMembers(volume, swapped), mountPath);
    expect(await capacity(await stage([m0, m1]))).toBe(2 * GIB);
  });

  it("takes out no member whose device is not the one that was reported, and records no removal of it", async () => {
    const mounted = await stageBoth();
    const before = superblockOf(m1);
    const mistaken = withMembers(mounted, [m0, leaving({ ...m1, reported: m0.reported })]);
    await expect(storage.shrink(mistaken, GIB, makeShrinkControl())).rejects.toMatchObject({
      code: "WrongFilesystem",
      message: expect.stringContaining(`driver of ${m1.claim}: device 2`),
    });
    expect(devices()).toHaveLength(2);
    expect(superblockOf(m1).equals(before)).toBe(true);
    expect(record().removals).toEqual([]);
  });

  it("records with a removal which volume it is about, and for which leader", async () => {
    const mounted = { ...(await stageBoth()), epoch: 7 };
    const known = { ...m1, persistentVolumeUID: "uid-of-pv" };
    await storage.shrink(withMembers(mounted, [m0, leaving(known)]), GIB, makeShrinkControl());
    expect(record().removals).toMatchObject([
      {
        member: "m1",
        ...m1.reported,
        volume: { driver: DRIVER, volumeHandle: m1.volume?.volumeHandle, persistentVolumeUID: "uid-of-pv" },
        epoch: 7,
      },
    ]);
  });

  it("neither formats nor adds a disk to which a device node from before a reboot leads", async () => {
    fixture.driver.publishing.by = "device node";
    const somebodys = makeMember(fixture, "somebodys", GIB);
    execFileSync("losetup", ["--find", fixture.fileOf(somebodys)]);
    for (const member of [m0, m1]) {
      mkdirSync(join(publishedPath(member), ".."), { recursive: true });
      makeNode(publishedPath(member), fixture.deviceOf(somebodys) ?? "");
    }
    const mounted = withMembers(await stage([m0]), [m0, m1]);
    expect(devices()).toEqual([basename(fixture.deviceOf(m0) ?? "")]);
    expect(await storage.extend(mounted, 2 * GIB)).toBe(2 * GIB);
    expect(devices().sort()).toEqual([m0, m1].map((member) => basename(fixture.deviceOf(member) ?? "")).sort());
    expect(isEmpty(somebodys)).toBe(true);
    execFileSync("losetup", ["--detach", fixture.deviceOf(somebodys) ?? ""]);
  });

  it("gives back what a stage that failed has published, before it asks the driver for it again", async () => {
    await storage.unstage(await stageBoth(), mountPath);
    const { refusals, before, calls } = fixture.driver;
    let staged = 0;
    before.set("NodeStageVolume", async () => {
      staged += 1;
      if (staged === 2) refusals.set("NodeStageVolume", { code: status.INTERNAL, details: "the array is on fire" });
    });
    await expect(stage([m0, m1])).rejects.toMatchObject({ code: "MemberDriverFailed" });
    before.clear();
    refusals.clear();
    calls.length = 0;
    await stage([m0, m1]);
    const ofFirst = calls
      .filter((call) => call.endsWith(` ${m0.volume?.volumeHandle}`))
      .map((call) => call.split(" ")[0]);
    expect(ofFirst).toEqual(["NodeUnpublishVolume", "NodeUnstageVolume", "NodeStageVolume", "NodePublishVolume"]);
  });

  it("is not made before each member that has a volume is here, and could be looked at", async () => {
    const { attachment: _attachment, ...onItsWay } = m1;
    await expect(stage([m0, onItsWay])).rejects.toMatchObject({
      code: "WaitingForMember",
      message: expect.stringContaining("member m1 (claim claim-m1 is not attached"),
    });
    expect(isEmpty(m0)).toBe(true);
    const { volume: _volume, ...unbound } = onItsWay;
    expect(await capacity(await stage([m0, unbound]))).toBe(GIB);
  });

  it("is not made where a later member holds it, whatever its layout has forgotten", async () => {
    await stage([m1]);
    writeFileSync(join(mountPath, "kept"), "water");
    await storage.unstage(withMembers(volume, [m1]), mountPath);
    rmSync(recordPath());
    const mounted = await stage([m0, m1]);
    expect(readFileSync(join(mountPath, "kept"), "utf8")).toBe("water");
    expect(isEmpty(m0)).toBe(true);
    expect(await storage.members(mounted)).toMatchObject([{ name: "m1", state: "Present" }]);
  });

  it("is not made by a node that remembers the beginning of a format, where the cluster remembers its end", async () => {
    const { handle, volumeUID, fsid, fsType } = volume;
    mkdirSync(fixture.recordDirectory, { recursive: true });
    writeFileSync(recordPath(), JSON.stringify({ handle, volumeUID, fsid, fsType, state: "formatting", removals: [] }));
    const formatted = { ...withMembers(volume, [m0]), formatted: true };
    await expect(storage.stage(formatted, 0, mountPath)).rejects.toMatchObject({ code: "AlreadyFormatted" });
    expect(isEmpty(m0)).toBe(true);
  });

  it("is not mounted from two members of which one is a copy of the other", async () => {
    await storage.unstage(await stage([m0]), mountPath);
    execFileSync("cp", ["--sparse=always", fixture.fileOf(m0), fixture.fileOf(m1)]);
    await expect(stage([m0, m1].map((member) => ({ ...member, wasInside: true })))).rejects.toMatchObject({
      code: "WrongFilesystem",
      message: expect.stringMatching(/take the copy out of the layout.*m0, m1\)/),
    });
    expect(mountAt(mountPath)).toBeUndefined();
  });

  it("is not mounted with a member that is an earlier state of itself, and says how far they are apart", async () => {
    await storage.unstage(await stageBoth(), mountPath);
    const earlier = makeMember(fixture, "earlier", GIB);
    execFileSync("cp", ["--sparse=always", fixture.fileOf(m1), fixture.fileOf(earlier)]);
    const mounted = await stage([m0, m1]);
    for (let commit = 0; commit < 3; commit += 1) {
      writeFileSync(join(mountPath, `file-${commit}`), "water");
      await storage.freshReading(mounted);
    }
    await storage.unstage(mounted, mountPath);
    await expect(stage([m0, { ...m1, volume: earlier.volume }])).rejects.toMatchObject({
      code: "WrongFilesystem",
      message: expect.stringMatching(/more than one commit apart \(m0 \d+, m1 \d+\)/),
    });
    await storage.unstage(withMembers(volume, [m0, { ...m1, volume: earlier.volume }]), mountPath);
    expect(await capacity(await stage([m0, m1]))).toBe(2 * GIB);
    expect(readFileSync(join(mountPath, "file-2"), "utf8")).toBe("water");
  });

  it.each<[string, (superblock: Buffer) => void, RegExp]>([
    [
      "its number is in use there",
      (superblock) => superblock.writeBigUInt64LE(1n, GENERATION_OFFSET),
      /member copy is a copy: .* taken out \(commit 1, now /,
    ],
    [
      "it is of a commit that the filesystem has not come to",
      (superblock) => {
        superblock.writeBigUInt64LE(9n, DEVID_OFFSET);
        superblock.writeBigUInt64LE(1_000_000n, GENERATION_OFFSET);
      },
      /member copy is a copy: .* taken out \(commit 1000000/,
    ],
  ])("wipes nothing that says it is its device where %s", async (_why, change, message) => {
    const mounted = await stageBoth();
    const copy = makeMember(fixture, "copy", GIB);
    const superblock = superblockOf(m1);
    change(superblock);
    restore(fixture.fileOf(copy), superblock, FIRST_COPY_BYTES);
    await expect(storage.releaseMembers(withMembers(mounted, [m0, m1, leaving(copy)]))).rejects.toMatchObject({
      code: "WrongFilesystem",
      message: expect.stringMatching(message),
    });
    expect(superblockOf(copy).equals(superblock)).toBe(true);
    expect(fixture.deviceOf(copy)).toBeDefined();
  });

  it("wipes of a member that is out only what is its own: another one's superblock beside stays", async () => {
    const mounted = await stageBoth();
    execFileSync("btrfs", ["device", "remove", "2", mountPath]);
    const others = Buffer.alloc(SUPERBLOCK_BYTES, "somebody else's");
    restore(fixture.fileOf(m1), others, SECOND_COPY_BYTES);
    await storage.releaseMembers(withMembers(mounted, [m0, leaving(m1)]));
    expect(isEmpty(m1)).toBe(true);
    expect(bytesOf(fixture.fileOf(m1), SECOND_COPY_BYTES, SUPERBLOCK_BYTES).equals(others)).toBe(true);
  });

  it("is grown, shrunk and let go of by whatever names the kernel has for its devices", async () => {
    const mounted = await stageBoth();
    const names = [m0, m1].map(({ volume: of }) => join("/dev/mapper", `tidemark-test-${of?.volumeHandle}`));
    mkdirSync("/dev/mapper", { recursive: true });
    try {
      for (const [index, member] of [m0, m1].entries()) {
        makeNode(names[index] ?? "", fixture.deviceOf(member) ?? "");
        execFileSync("btrfs", ["device", "scan", names[index] ?? ""]); // From now on the kernel calls it so.
      }
      expect(names).toContain(mountAt(mountPath)?.source);
      expect(await storage.find(withMembers(volume, [m0, m1]), mountPath)).toMatchObject({ fsid: volume.fsid });
      expect(await storage.mountPath(volume)).toBe(mountPath);
      expect(await storage.sizeBytes(volume)).toBe(2 * GIB);
      expect(await storage.members(mounted)).toMatchObject([
        { name: "m0", devid: 1, sizeBytes: GIB },
        { name: "m1", devid: 2, sizeBytes: GIB },
      ]);
      fixture.driver.growVolume(m0.volume?.volumeHandle ?? "", 2 * GIB);
      m0 = { ...m0, sizeBytes: 2 * GIB, capacityBytes: 2 * GIB };
      expect(await storage.extend(withMembers(mounted, [m0, m1]), 3 * GIB)).toBe(3 * GIB);
      const shrunk = withMembers(mounted, [m0, leaving(m1)]);
      expect(await storage.shrink(shrunk, 2 * GIB, makeShrinkControl())).toMatchObject({ outcome: "Succeeded" });
      await storage.unstage(shrunk, mountPath);
      expect([fixture.deviceOf(m0), fixture.deviceOf(m1)]).toEqual([undefined, undefined]);
    } finally {
      for (const name of names) rmSync(name, { force: true });
    }
  });

  it("says of a disk that has vanished which it is, changes no size meanwhile, and can still be let go of", async () => {
    const mounted = await stageBoth();
    const gone = join(fixture.directory, "gone");
    execFileSync("mknod", [gone, ...NO_DISK]);
    execFileSync("mount", ["--bind", gone, publishedPath(m1)]);
    const vanished = { code: "MembersMissing", message: expect.stringMatching(/m1\/device .*7:1048000.* vanished/) };
    await expect(storage.members(mounted)).rejects.toMatchObject(vanished);
    await expect(storage.extend(mounted, 3 * GIB)).rejects.toMatchObject(vanished);
    const shrunk = withMembers(mounted, [m0, leaving(m1)]);
    await expect(storage.shrink(shrunk, GIB, makeShrinkControl())).rejects.toMatchObject(vanished);
    await expect(storage.releaseMembers(shrunk)).rejects.toMatchObject(vanished);
    expect(devices()).toHaveLength(2);
    expect(await storage.find(mounted, mountPath)).toMatchObject({ fsid: volume.fsid });
    execFileSync("umount", [publishedPath(m1)]);
    await storage.unstage(mounted, mountPath);
    expect(existsSync(`/sys/fs/btrfs/${volume.fsid}`)).toBe(false);
    expect(await capacity(await stage([m0, m1]))).toBe(2 * GIB);
  });
});
