// What the span adapter of the storage port does, on real btrfs over the block volumes of a real CSI node plugin.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { SpanMember } from "../../../src/agent/member-drivers/span-member.ts";
import { btrfsSuperblockRanges } from "../../../src/agent/storage/filesystem/superblocks.ts";
import type { SpanStorage } from "../../../src/agent/storage/span/span-storage.ts";
import type { MountedSpan, SpanVolume } from "../../../src/agent/storage/storage.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import {
  bytesOf,
  createSpanFixture,
  DRIVER,
  leaving,
  makeMember,
  makeSpan,
  restore,
  type SpanFixture,
  withMembers,
} from "./span-fixture.ts";
import { GIB, MIB, makeShrinkControl } from "./storage-fixture.ts";

describeReal("a span of a CSI driver's volumes", LOOP_PARTS, () => {
  let fixture: SpanFixture;
  let storage: SpanStorage;
  let m0: SpanMember;
  let volume: SpanVolume;
  let mountPath: string;

  beforeEach(async () => {
    fixture = await createSpanFixture();
    storage = fixture.storage;
    m0 = makeMember(fixture, "m0", GIB);
    volume = makeSpan([m0]);
    mountPath = fixture.mountPathOf(volume);
  });
  afterEach(() => fixture.cleanUp());

  const stage = (members: readonly SpanMember[] = [m0]): Promise<MountedSpan> =>
    storage.stage(withMembers(volume, members), 0, mountPath);
  const capacity = async (mounted: MountedSpan): Promise<number> => (await storage.freshReading(mounted)).capacityBytes;

  /** As a driver may do that makes the device larger before it is told to. */
  const growDevice = (member: SpanMember, sizeBytes: number): void => {
    fixture.driver.growVolume(member.volume?.volumeHandle ?? "", sizeBytes);
    execFileSync("losetup", ["--set-capacity", fixture.deviceOf(member) ?? ""]);
  };

  it("makes the filesystem on its first member with the fsid that was chosen for it, and mounts it", async () => {
    const mounted = await stage();
    expect(await capacity(mounted)).toBe(GIB);
    expect(readdirSync(`/sys/fs/btrfs/${volume.fsid}/devices`)).toHaveLength(1);
    expect(await storage.sizeBytes(mounted)).toBe(GIB);
    expect(await storage.members(mounted)).toEqual([
      {
        name: "m0",
        state: "Present",
        devid: 1,
        deviceUUID: expect.stringMatching(/^[0-9a-f-]{36}$/),
        sizeBytes: GIB,
        allocatedBytes: expect.any(Number),
        deviceBytes: GIB,
      },
    ]);
    expect(await stage()).toEqual(mounted);
    expect(await storage.find(volume, mountPath)).toEqual(mounted);
  });

  it("calls the driver as kubelet would, and tells it what the claim's volume and attachment say", async () => {
    await stage();
    const stageRequest = fixture.driver.requests.get("NodeStageVolume");
    expect(stageRequest).toMatchObject({
      volumeId: m0.volume?.volumeHandle,
      publishContext: { attached: "yes" },
      volumeContext: { pool: "slow" },
      stagingTargetPath: join(fixture.deviceDirectory, volume.handle, "m0/staging"),
    });
    expect(fixture.driver.requests.get("NodePublishVolume")).toMatchObject({
      targetPath: join(fixture.deviceDirectory, volume.handle, "m0/device"),
      volumeCapability: { accessType: { $case: "block" } },
      readonly: false,
    });
  });

  it("waits for a member that is not attached here, and says which", async () => {
    const { attachment: _attachment, ...elsewhere } = { ...makeMember(fixture, "m1", GIB), wasInside: true };
    await expect(stage([{ ...m0, wasInside: true }, elsewhere])).rejects.toMatchObject({
      code: "WaitingForMember",
      message: expect.stringContaining(`m1 (claim claim-m1 is not attached to this node by ${DRIVER} yet`),
    });
    expect(existsSync(`/sys/fs/btrfs/${volume.fsid}`)).toBe(false);
  });

  it("does not wait for a member that shall only make it larger", async () => {
    const { attachment: _attachment, ...onItsWay } = makeMember(fixture, "m1", GIB);
    await storage.unstage(await stage(), mountPath);
    expect(await capacity(await stage([{ ...m0, wasInside: true }, onItsWay]))).toBe(GIB);
  });

  it("starts although a member that shall only make it larger cannot be had", async () => {
    const m1 = makeMember(fixture, "m1", GIB);
    execFileSync("mkfs.ext4", ["-q", fixture.fileOf(m1)]);
    expect(await capacity(await stage([m0, m1]))).toBe(GIB);
    expect(fixture.deviceOf(m1)).toBeUndefined();
  });

  it("finds a member that a dead agent has taken in and told nobody of", async () => {
    const m1 = makeMember(fixture, "m1", GIB);
    const mounted = withMembers(await stage(), [m0, m1]);
    await storage.extend(mounted, 2 * GIB);
    await storage.unstage(mounted, mountPath);
    expect(await capacity(await stage([{ ...m0, wasInside: true }, m1]))).toBe(2 * GIB);
  });

  it("says which driver is not on this node, and which has refused with its words", async () => {
    fixture.driver.refusals.set("NodeStageVolume", { code: status.INTERNAL, details: "the array is on fire" });
    await expect(stage()).rejects.toMatchObject({
      code: "MemberDriverFailed",
      message: expect.stringContaining("INTERNAL: the array is on fire"),
    });
    await fixture.driver.stop();
    await expect(stage()).rejects.toMatchObject({
      code: "WaitingForMember",
      message: expect.stringContaining(`${DRIVER} is not registered on this node`),
    });
  });

  it("has all members brought at once, and is mounted from them in their order", async () => {
    const members = [m0, makeMember(fixture, "m1", GIB), makeMember(fixture, "m2", GIB)];
    const mounted = withMembers(await stage(), members);
    await storage.extend(mounted, 3 * GIB);
    await storage.unstage(mounted, mountPath);
    const { before } = fixture.driver;
    const asked: (() => void)[] = [];
    // No driver answers before each member's is asked: one after the other would wait for ever.
    const untilAllAreAsked = (): Promise<void> =>
      new Promise((resolve) => {
        asked.push(resolve);
        if (asked.length % members.length === 0) for (const answer of asked) answer();
      });
    for (const method of ["NodeStageVolume", "NodePublishVolume"]) before.set(method, untilAllAreAsked);
    const again = await stage(members.map((member) => ({ ...member, wasInside: true })));
    expect(again.device).toBe(fixture.deviceOf(m0));
    expect((await storage.members(again)).map(({ name, devid }) => `${name} ${devid}`)).toEqual([
      "m0 1",
      "m1 2",
      "m2 3",
    ]);
  });

  it("names each member that its driver refuses, and keeps what has been brought of the others", async () => {
    const [m1, m2] = [makeMember(fixture, "m1", GIB), makeMember(fixture, "m2", GIB)];
    const mounted = withMembers(await stage(), [m0, m1, m2]);
    const inside = [m0, m1, m2].map((member) => ({ ...member, wasInside: true }));
    await storage.extend(mounted, 3 * GIB);
    await storage.unstage(mounted, mountPath);
    for (const member of [m0, m2]) renameSync(fixture.fileOf(member), `${fixture.fileOf(member)}.away`);
    await expect(stage(inside)).rejects.toMatchObject({
      code: "MemberDriverFailed",
      message: expect.stringMatching(/: member m0: the CSI driver .*INTERNAL.*; member m2: the CSI driver .*INTERNAL/s),
    });
    expect(fixture.deviceOf(m1)).toBeDefined();
    expect(existsSync(join(fixture.deviceDirectory, volume.handle, "m1/device"))).toBe(true);
    expect(existsSync(`/sys/fs/btrfs/${volume.fsid}`)).toBe(false);
    for (const member of [m0, m2]) renameSync(`${fixture.fileOf(member)}.away`, fixture.fileOf(member));
    expect(await capacity(await stage(inside))).toBe(3 * GIB);
  });

  it("adds a member, and the filesystem is larger at once", async () => {
    const mounted = await stage();
    const grown = withMembers(mounted, [m0, makeMember(fixture, "m1", 2 * GIB)]);
    expect(await storage.extend(grown, 2.5 * GIB)).toBe(3 * GIB);
    expect(await capacity(grown)).toBe(3 * GIB);
    expect(await storage.extend(grown, 3 * GIB)).toBe(3 * GIB);
    const members = await storage.members(grown);
    expect(members).toMatchObject([
      { name: "m0", devid: 1, sizeBytes: GIB },
      { name: "m1", devid: 2, sizeBytes: 2 * GIB, allocatedBytes: 0 },
    ]);
    expect(members[0]?.allocatedBytes).toBeGreaterThan(0);
    expect(members[0]?.allocatedBytes).toBeLessThan(GIB);
  });

  it("adds no more members than it takes, in their order", async () => {
    const mounted = await stage();
    const grown = withMembers(mounted, [m0, makeMember(fixture, "m1", GIB), makeMember(fixture, "spare", GIB)]);
    expect(await storage.extend(grown, 1.5 * GIB)).toBe(2 * GIB);
    expect((await storage.members(grown)).map(({ name }) => name)).toEqual(["m0", "m1"]);
    expect(await storage.extend(grown, 2.5 * GIB)).toBe(3 * GIB);
  });

  it("grows a member in place once its volume has grown", async () => {
    const mounted = await stage();
    fixture.driver.growVolume(m0.volume?.volumeHandle ?? "", 2 * GIB);
    const grown = withMembers(mounted, [{ ...m0, sizeBytes: 2 * GIB, capacityBytes: 2 * GIB }]);
    expect(await storage.extend(grown, 2 * GIB)).toBe(2 * GIB);
    expect(await capacity(grown)).toBe(2 * GIB);
    expect(fixture.driver.requests.get("NodeExpandVolume")).toMatchObject({
      volumePath: join(fixture.deviceDirectory, volume.handle, "m0/device"),
      capacityRange: { requiredBytes: 2 * GIB },
    });
  });

  it("grows no member before its driver has said that it has, though the device shows it", async () => {
    const mounted = await stage();
    const handle = m0.volume?.volumeHandle ?? "";
    growDevice(m0, 2 * GIB);
    const grown = withMembers(mounted, [{ ...m0, sizeBytes: 2 * GIB, capacityBytes: 2 * GIB }]);
    fixture.driver.refusals.set("NodeExpandVolume", { code: status.INTERNAL, details: "the array is busy" });
    const once = new AbortController();
    const asked = () => fixture.driver.calls.filter((call) => call === `NodeExpandVolume ${handle}`);
    fixture.driver.before.set("NodeExpandVolume", async () => {
      if (asked().length > 1) once.abort();
    });
    await expect(storage.extend(grown, 2 * GIB, once.signal)).rejects.toMatchObject({
      code: "WaitingForMember",
      message: expect.stringContaining("the array is busy"),
    });
    expect(await capacity(grown)).toBe(GIB);
    fixture.driver.before.clear();
    fixture.driver.refusals.clear();
    expect(await storage.extend(grown, 2 * GIB)).toBe(2 * GIB);
    expect(asked()).toHaveLength(3);
  });

  it("leaves what a device has beyond what was asked for alone, after a restart too", async () => {
    const mounted = await stage();
    growDevice(m0, 3 * GIB);
    expect(await storage.recover(mounted)).toBe(GIB);
    const grown = withMembers(mounted, [{ ...m0, sizeBytes: 3 * GIB, capacityBytes: 2 * GIB }]);
    expect(await storage.recover(grown)).toBe(GIB);
    expect(await storage.extend(grown, 2 * GIB)).toBe(2 * GIB);
    expect(await capacity(grown)).toBe(2 * GIB);
  });

  it("uses all of a member again whose removal was interrupted, and no more than before", async () => {
    const m1 = makeMember(fixture, "m1", 2 * GIB);
    const mounted = withMembers(await stage(), [m0, m1]);
    await storage.extend(mounted, 3 * GIB);
    const [, { devid = 0, deviceUUID = "" } = {}] = await storage.members(mounted);
    const record = join(fixture.recordDirectory, `${volume.handle}.span.json`);
    const removal = { member: "m1", devid, deviceUUID, sizeBytes: 2 * GIB, state: "leaving" };
    writeFileSync(record, JSON.stringify({ ...JSON.parse(readFileSync(record, "utf8")), removals: [removal] }));
    execFileSync("btrfs", ["filesystem", "resize", `${devid}:1g`, mountPath]);
    growDevice(m1, 4 * GIB);
    expect(await storage.recover(mounted)).toBe(3 * GIB);
  });

  it("changes nothing about a filesystem with a device that was added by hand, and loses none of it", async () => {
    const m1 = makeMember(fixture, "m1", GIB);
    const mounted = withMembers(await stage(), [m0, m1]);
    await storage.extend(mounted, 2 * GIB);
    const byHand = makeMember(fixture, "by-hand", GIB);
    execFileSync("losetup", ["--find", fixture.fileOf(byHand)]);
    execFileSync("btrfs", ["device", "add", "-K", fixture.deviceOf(byHand) ?? "", mountPath]);
    const found = await storage.find(withMembers(volume, [m0, m1]), mountPath);
    if (found === undefined) throw new Error("it is mounted all the same");
    const stranger = basename(fixture.deviceOf(byHand) ?? "-");
    expect(await storage.members(found)).toContainEqual({ name: stranger, state: "Stranger" });
    const held = { code: "WrongFilesystem", message: expect.stringContaining(stranger) };
    await expect(storage.recover(found)).rejects.toMatchObject(held);
    await expect(storage.extend(found, 3 * GIB)).rejects.toMatchObject(held);
    const shrunk = withMembers(found, [m0, leaving(m1)]);
    await expect(storage.shrink(shrunk, GIB, makeShrinkControl())).rejects.toMatchObject(held);
    expect(readdirSync(`/sys/fs/btrfs/${volume.fsid}/devices`)).toHaveLength(3);
    execFileSync("btrfs", ["device", "remove", fixture.deviceOf(byHand) ?? "", mountPath]);
    expect(await storage.shrink(shrunk, GIB, makeShrinkControl())).toMatchObject({ outcome: "Succeeded" });
    execFileSync("losetup", ["--detach", fixture.deviceOf(byHand) ?? ""]);
  });

  it("finds no volume of its own in what is mounted from a copy of its member", async () => {
    await storage.unstage(await stage(), mountPath);
    const copy = makeMember(fixture, "copy", GIB);
    execFileSync("cp", ["--sparse=always", fixture.fileOf(m0), fixture.fileOf(copy)]);
    execFileSync("losetup", ["--find", fixture.fileOf(copy)]);
    execFileSync("mount", [fixture.deviceOf(copy) ?? "", mountPath]);
    await expect(storage.find(volume, mountPath)).rejects.toMatchObject({ code: "WrongFilesystem" });
    await expect(stage()).rejects.toMatchObject({ code: "WrongFilesystem" });
    await storage.unstage(volume, mountPath);
    expect(await capacity(await stage())).toBe(GIB);
  });

  it("says that members are missing for an extend, and keeps those that are there", async () => {
    const mounted = await stage();
    await expect(storage.extend(mounted, 2 * GIB)).rejects.toMatchObject({ code: "WaitingForMember" });
    expect(await capacity(mounted)).toBe(GIB);
  });

  it("removes a member with its data, wipes it, and gives it back to the driver", async () => {
    const m1 = makeMember(fixture, "m1", GIB);
    const mounted = withMembers(await stage(), [m0, m1]);
    await storage.extend(mounted, 2 * GIB);
    const bytes = Buffer.alloc(64 * MIB, "tide");
    writeFileSync(join(mountPath, "kept"), bytes);
    const shrunk = withMembers(mounted, [m0, leaving(m1)]);
    const steps: number[] = [];
    const result = await storage.shrink(shrunk, GIB, makeShrinkControl({ onStep: (size) => steps.push(size) }));
    expect(result).toEqual({ outcome: "Succeeded", sizeBytes: GIB });
    expect(steps).toEqual([GIB]);
    expect(await capacity(shrunk)).toBe(GIB);
    expect(readFileSync(join(mountPath, "kept")).equals(bytes)).toBe(true);
    expect(await storage.members(shrunk)).toMatchObject([{ name: "m0" }, { name: "m1", state: "Removed" }]);
    expect(fixture.deviceOf(m1)).toBeUndefined();
    for (const { offsetBytes, lengthBytes } of btrfsSuperblockRanges(GIB))
      expect(bytesOf(fixture.fileOf(m1), offsetBytes, lengthBytes).every((byte) => byte === 0)).toBe(true);
    fixture.driver.deleteVolume(m1.volume?.volumeHandle ?? "");
  });

  it("removes the first member as well as any other", async () => {
    const m1 = makeMember(fixture, "m1", 2 * GIB);
    const mounted = withMembers(await stage(), [m0, m1]);
    await storage.extend(mounted, 3 * GIB);
    writeFileSync(join(mountPath, "kept"), "water");
    const shrunk = withMembers(mounted, [leaving(m0), m1]);
    expect(await storage.shrink(shrunk, 2 * GIB, makeShrinkControl())).toMatchObject({ outcome: "Succeeded" });
    await storage.unstage(shrunk, mountPath);
    const again = await stage([m1]);
    expect(await capacity(again)).toBe(2 * GIB);
    expect(readFileSync(join(mountPath, "kept"), "utf8")).toBe("water");
  });

  it("refuses a removal that the other members have no room for, with the figures, and changes nothing", async () => {
    const m1 = makeMember(fixture, "m1", 2 * GIB);
    const mounted = withMembers(await stage(), [m0, m1]);
    await storage.extend(mounted, 3 * GIB);
    execFileSync("fallocate", ["--length", `${1200 * MIB}`, join(mountPath, "data")]);
    const result = await storage.shrink(withMembers(mounted, [m0, leaving(m1)]), GIB, makeShrinkControl());
    if (result.outcome !== "FloorReached") throw new Error(`ended as ${result.outcome}`);
    expect(result.message).toMatch(/member m1 \(2Gi\) stays: the other members have 1Gi, less than .* used/);
    expect(await capacity(mounted)).toBe(3 * GIB);
  });

  it("lets an extend stop a removal and go first, and the member stays whole", async () => {
    const m1 = makeMember(fixture, "m1", 3 * GIB);
    const m2 = makeMember(fixture, "m2", GIB);
    const big = makeMember(fixture, "m3", 4 * GIB);
    const mounted = withMembers(await stage(), [m0, m1, big]);
    await storage.extend(mounted, 8 * GIB);
    writeFileSync(join(mountPath, "data"), Buffer.alloc(1500 * MIB, "x"));
    await storage.freshReading(mounted);
    const shrinking = storage.shrink(withMembers(mounted, [m0, m1, leaving(big)]), 4 * GIB, makeShrinkControl());
    const grown = withMembers(mounted, [m0, m1, big, m2]);
    expect(await storage.extend(grown, 9 * GIB)).toBe(9 * GIB);
    expect((await shrinking).outcome).toBe("Cancelled");
    expect((await storage.members(grown)).map(({ state, sizeBytes }) => [state, sizeBytes])).toEqual([
      ["Present", GIB],
      ["Present", 3 * GIB],
      ["Present", 4 * GIB],
      ["Present", GIB],
    ]);
  });

  it("lets go of everything, and finds data and members again", async () => {
    const m1 = makeMember(fixture, "m1", GIB);
    const mounted = withMembers(await stage(), [m0, m1]);
    await storage.extend(mounted, 2 * GIB);
    writeFileSync(join(mountPath, "kept"), "water");
    await storage.unstage(mounted, mountPath);
    await storage.unstage(mounted, mountPath);
    expect(existsSync(`/sys/fs/btrfs/${volume.fsid}`)).toBe(false);
    expect([fixture.deviceOf(m0), fixture.deviceOf(m1)]).toEqual([undefined, undefined]);
    expect(existsSync(join(fixture.deviceDirectory, volume.handle))).toBe(false);
    const again = await stage([m0, m1]);
    expect(await capacity(again)).toBe(2 * GIB);
    expect(readFileSync(join(mountPath, "kept"), "utf8")).toBe("water");
  });

  it("never mounts without a member that the filesystem has, whatever its layout says", async () => {
    const m1 = makeMember(fixture, "m1", GIB);
    const mounted = withMembers(await stage(), [m0, m1]);
    await storage.extend(mounted, 2 * GIB);
    await storage.unstage(mounted, mountPath);
    await expect(stage([m0])).rejects.toMatchObject({
      code: "MembersMissing",
      message: expect.stringMatching(/has 2 devices, and 1 of them are here: m0$/),
    });
    // Its layout was put back from a backup, and the node's record alone knows the other one's volume.
    await expect(storage.stage({ ...withMembers(volume, [m0]), former: [m1] }, 0, mountPath)).rejects.toMatchObject({
      message: expect.stringContaining(
        `it was also on member m1 (volume ${m1.volume?.volumeHandle} of driver ${DRIVER}, claim`,
      ),
    });
    execFileSync("wipefs", ["--all", "--quiet", fixture.fileOf(m1)]);
    await expect(stage([m0, m1])).rejects.toMatchObject({
      code: "MembersMissing",
      message: expect.stringContaining(
        `not on member m1 (volume ${m1.volume?.volumeHandle} of driver ${DRIVER}, claim`,
      ),
    });
    expect(existsSync(`/sys/fs/btrfs/${volume.fsid}`)).toBe(false);
  });

  it("never formats a member that carries something, nor a second time one that was wiped", async () => {
    execFileSync("mkfs.ext4", ["-q", fixture.fileOf(m0)]);
    await expect(stage()).rejects.toMatchObject({ code: "SignatureFound" });
    execFileSync("wipefs", ["--all", "--quiet", fixture.fileOf(m0)]);
    const formatted = { ...volume, formatted: true };
    await expect(storage.stage(formatted, 0, mountPath)).rejects.toMatchObject({ code: "AlreadyFormatted" });
    const mounted = await stage();
    await storage.unstage(mounted, mountPath);
    execFileSync("wipefs", ["--all", "--quiet", fixture.fileOf(m0)]);
    await expect(stage()).rejects.toMatchObject({ code: "AlreadyFormatted" });
  });

  it("never adds a member that carries something", async () => {
    const m1 = makeMember(fixture, "m1", GIB);
    execFileSync("mkfs.ext4", ["-q", fixture.fileOf(m1)]);
    const mounted = withMembers(await stage(), [m0, m1]);
    await expect(storage.extend(mounted, 2 * GIB)).rejects.toMatchObject({ code: "SignatureFound" });
    expect(await capacity(mounted)).toBe(GIB);
  });

  it("adds the others where a member carries something, says which that is, and takes it once somebody has wiped it", async () => {
    const [m1, m2] = [makeMember(fixture, "m1", GIB), makeMember(fixture, "m2", GIB)];
    execFileSync("mkfs.ext4", ["-q", fixture.fileOf(m1)]);
    const mounted = withMembers(await stage(), [m0, m1, m2]);
    await expect(storage.extend(mounted, 3 * GIB)).rejects.toMatchObject({ code: "SignatureFound" });
    expect(await capacity(mounted)).toBe(2 * GIB);
    expect(await storage.members(mounted)).toMatchObject([
      { name: "m0", state: "Present" },
      { name: "m2", state: "Present" },
      { name: "m1", state: "Refused", why: expect.stringContaining("carries a ext4 signature") },
    ]);
    const beside = withMembers(mounted, [m0, { ...m1, wanted: "Spare" }, m2]);
    await storage.prepareSpares(beside);
    expect(await storage.members(beside)).toContainEqual(expect.objectContaining({ name: "m1", state: "Refused" }));
    execFileSync("wipefs", ["--all", "--quiet", fixture.deviceOf(m1) ?? ""]);
    await storage.prepareSpares(beside);
    expect(await storage.members(beside)).toContainEqual({ name: "m1", state: "Spare", sizeBytes: GIB });
    expect(await storage.extend(mounted, 3 * GIB)).toBe(3 * GIB);
  });

  it("does not wipe a member whose device is another one by now", async () => {
    const m1 = makeMember(fixture, "m1", GIB);
    const mounted = withMembers(await stage(), [m0, m1]);
    await storage.extend(mounted, 2 * GIB);
    const shrunk = withMembers(mounted, [m0, leaving(m1)]);
    const record = join(fixture.recordDirectory, `${volume.handle}.span.json`);
    // R1 names a device, and the one that is found has another UUID: as if paths had changed hands after a crash.
    const stranger = { member: "m1", devid: 2, deviceUUID: "00000000-0000-4000-8000-000000000000" };
    execFileSync("btrfs", ["device", "remove", "2", mountPath]);
    writeFileSync(
      record,
      JSON.stringify({
        ...JSON.parse(readFileSync(record, "utf8")),
        removals: [{ ...stranger, sizeBytes: GIB, state: "leaving" }],
      }),
    );
    await expect(storage.releaseMembers(shrunk)).rejects.toMatchObject({ code: "WrongFilesystem" });
    expect(bytesOf(fixture.fileOf(m1), 65_536, 4096).some((byte) => byte !== 0)).toBe(true);
    expect(fixture.deviceOf(m1)).toBeDefined();
  });

  it("neither wipes nor lets go of a member whose device has come back under another name", async () => {
    const m1 = makeMember(fixture, "m1", GIB);
    const mounted = withMembers(await stage(), [m0, m1]);
    await storage.extend(mounted, 2 * GIB);
    const superblock = bytesOf(fixture.fileOf(m1), 65_536, 4096);
    // The filesystem goes on with the device that it has; where the member was published another one of the same volume is found.
    const another = execFileSync("losetup", ["--find", "--show", fixture.fileOf(m1)], { encoding: "utf8" }).trim();
    const published = join(fixture.deviceDirectory, volume.handle, "m1", "device");
    execFileSync("mount", ["--bind", another, published]);
    try {
      const shrunk = withMembers(mounted, [m0, leaving(m1)]);
      await expect(storage.releaseMembers(shrunk)).rejects.toMatchObject({ code: "MembersMissing" });
      expect(bytesOf(fixture.fileOf(m1), 65_536, 4096).equals(superblock)).toBe(true);
      expect(readdirSync(`/sys/fs/btrfs/${volume.fsid}/devices`)).toHaveLength(2);
    } finally {
      execFileSync("umount", [published]);
      execFileSync("losetup", ["--detach", another]);
    }
    expect(await capacity(mounted)).toBe(2 * GIB);
  });

  it("lets go of a member that another node has taken out right before it died", async () => {
    const m1 = makeMember(fixture, "m1", GIB);
    const mounted = withMembers(await stage(), [m0, m1]);
    await storage.extend(mounted, 2 * GIB);
    const superblock = bytesOf(fixture.fileOf(m1), 65_536, 4096);
    execFileSync("btrfs", ["device", "remove", "2", mountPath]);
    await storage.unstage(mounted, mountPath);
    restore(fixture.fileOf(m1), superblock, 65_536); // The power cut came before the kernel could clear it.
    const again = await stage([m0, leaving(m1)]);
    expect(await capacity(again)).toBe(GIB);
    await storage.releaseMembers(again);
    expect(await storage.members(again)).toMatchObject([{ name: "m0" }, { name: "m1", state: "Removed" }]);
    expect(bytesOf(fixture.fileOf(m1), 65_536, 4096).every((byte) => byte === 0)).toBe(true);
  });

  /** Its number is another member's by now; a power cut came before the kernel could clear what m1 says of itself. */
  async function replacedUnwiped(m1: SpanMember, m2: SpanMember): Promise<MountedSpan> {
    const mounted = withMembers(await stage(), [m0, m1]);
    await storage.extend(mounted, 2 * GIB);
    const superblock = bytesOf(fixture.fileOf(m1), 65_536, 4096);
    execFileSync("btrfs", ["device", "remove", "2", mountPath]);
    await storage.unstage(mounted, mountPath);
    const grown = withMembers(await stage(), [m0, m2]);
    await storage.extend(grown, 2 * GIB);
    expect(await storage.members(grown)).toMatchObject([{ name: "m0" }, { name: "m2", devid: 2 }]);
    await storage.unstage(grown, mountPath);
    restore(fixture.fileOf(m1), superblock, 65_536);
    return stage([m0, m2, leaving(m1)].map((member) => ({ ...member, wasInside: member.name !== "m1" })));
  }

  it("lets go of a member that was taken out right before a power cut, and whose number another one has by now", async () => {
    const [m1, m2] = [makeMember(fixture, "m1", GIB), makeMember(fixture, "m2", GIB)];
    const mounted = await replacedUnwiped(m1, m2);
    writeFileSync(join(mountPath, "kept"), "water");
    await storage.releaseMembers(mounted);
    expect(await storage.members(mounted)).toMatchObject([
      { name: "m0", state: "Present" },
      { name: "m2", state: "Present" },
      { name: "m1", state: "Removed" },
    ]);
    expect(bytesOf(fixture.fileOf(m1), 65_536, 4096).every((byte) => byte === 0)).toBe(true);
    expect(fixture.deviceOf(m1)).toBeUndefined();
    await storage.unstage(mounted, mountPath);
    expect(await capacity(await stage([m0, m2]))).toBe(2 * GIB);
    expect(readFileSync(join(mountPath, "kept"), "utf8")).toBe("water");
  });

  it("neither wipes nor lets go of what says that it is a device which the filesystem has, as it was earlier", async () => {
    const [m1, m2] = [makeMember(fixture, "m1", GIB), makeMember(fixture, "m2", GIB)];
    const mounted = await replacedUnwiped(m1, m2);
    const copied = bytesOf(fixture.fileOf(m2), 65_536, 4096);
    restore(fixture.fileOf(m1), copied, 65_536);
    writeFileSync(join(mountPath, "later"), "water");
    execFileSync("btrfs", ["filesystem", "sync", mountPath]);
    await expect(storage.releaseMembers(mounted)).rejects.toMatchObject({
      code: "WrongFilesystem",
      message: expect.stringContaining("nothing proves that it was taken out"),
    });
    expect(bytesOf(fixture.fileOf(m1), 65_536, 4096).equals(copied)).toBe(true);
    expect(fixture.deviceOf(m1)).toBeDefined();
  });

  it("never takes back a member that was taken out and not wiped", async () => {
    const m1 = makeMember(fixture, "m1", GIB);
    const mounted = withMembers(await stage(), [m0, m1]);
    await storage.extend(mounted, 2 * GIB);
    const superblock = bytesOf(fixture.fileOf(m1), 65_536, 4096);
    execFileSync("btrfs", ["device", "remove", "2", mountPath]);
    await storage.unstage(mounted, mountPath);
    restore(fixture.fileOf(m1), superblock, 65_536);
    const again = await stage([m0, m1]);
    expect(await capacity(again)).toBe(GIB);
    await expect(storage.extend(again, 2 * GIB)).rejects.toMatchObject({
      code: "SignatureFound",
      message: expect.stringContaining("this filesystem's own UUID: it was taken out of it before, or half added"),
    });
    expect(await capacity(again)).toBe(GIB);
    expect(bytesOf(fixture.fileOf(m1), 65_536, 4096).equals(superblock)).toBe(true);
  });

  it("goes on without a member that a power cut has half added, and gives it back once it is later than that", async () => {
    const [m1, m2] = [makeMember(fixture, "m1", GIB), makeMember(fixture, "m2", GIB)];
    await storage.unstage(await stage(), mountPath);
    const before = join(fixture.directory, "m0-before");
    execFileSync("cp", ["--sparse=always", fixture.fileOf(m0), before]);
    const mounted = withMembers(await stage(), [m0, m1]);
    await storage.extend(mounted, 2 * GIB);
    await storage.unstage(mounted, mountPath);
    // Of the commit that adds it, the first member's superblock was not written.
    execFileSync("cp", ["--sparse=always", before, fixture.fileOf(m0)]);
    const again = await stage([m0, m1]);
    await expect(storage.extend(again, 2 * GIB)).rejects.toMatchObject({ code: "SignatureFound" });
    for (const name of ["one", "two", "three"]) {
      writeFileSync(join(mountPath, name), name);
      execFileSync("btrfs", ["filesystem", "sync", mountPath]);
    }
    await storage.releaseMembers(withMembers(again, [m0, leaving(m1)]));
    expect(await storage.members(withMembers(again, [m0, leaving(m1)]))).toMatchObject([
      { name: "m0", state: "Present" },
      { name: "m1", state: "Removed" },
    ]);
    expect(await storage.extend(withMembers(again, [m0, leaving(m1), m2]), 2 * GIB)).toBe(2 * GIB);
  });

  it("lets go of a member whose removal it has begun, though it is wanted again by then", async () => {
    const m1 = makeMember(fixture, "m1", GIB);
    const mounted = withMembers(await stage(), [m0, m1]);
    await storage.extend(mounted, 2 * GIB);
    const [, { devid = 0, deviceUUID = "" } = {}] = await storage.members(mounted);
    const record = join(fixture.recordDirectory, `${volume.handle}.span.json`);
    const removal = { member: "m1", devid, deviceUUID, sizeBytes: GIB, state: "leaving" };
    const begin = (): void =>
      writeFileSync(record, JSON.stringify({ ...JSON.parse(readFileSync(record, "utf8")), removals: [removal] }));
    begin();
    expect(await storage.extend(mounted, 2 * GIB)).toBe(2 * GIB); // It is inside still, and may stay: that removal is over.
    begin();
    execFileSync("btrfs", ["device", "remove", "2", mountPath]);
    expect(await storage.members(mounted)).toMatchObject([{ name: "m0" }, { name: "m1", state: "Leaving" }]);
    await expect(storage.extend(mounted, 2 * GIB)).rejects.toMatchObject({ code: "WaitingForMember" });
    await storage.releaseMembers(mounted);
    expect(await storage.members(mounted)).toMatchObject([{ name: "m0" }, { name: "m1", state: "Removed" }]);
    expect(fixture.deviceOf(m1)).toBeUndefined();
  });

  it("unmounts what came up beside a mounted copy of its member", async () => {
    const mounted = await stage();
    await storage.unstage(mounted, mountPath);
    const copy = makeMember(fixture, "copy", GIB);
    execFileSync("cp", ["--sparse=always", fixture.fileOf(m0), fixture.fileOf(copy)]);
    const elsewhere = join(fixture.directory, "mounts", "copy");
    mkdirSync(elsewhere, { recursive: true });
    execFileSync("losetup", ["--find", fixture.fileOf(copy)]);
    execFileSync("mount", [fixture.deviceOf(copy) ?? "", elsewhere]);
    await expect(stage()).rejects.toMatchObject({ code: "WrongFilesystem" });
    expect(await storage.find(volume, mountPath)).toBeUndefined();
    await expect(storage.unstage(volume, mountPath)).rejects.toMatchObject({ code: "DeviceBusy" });
    execFileSync("umount", [elsewhere]);
    await storage.unstage(volume, mountPath);
    expect(await capacity(await stage())).toBe(GIB);
  });
});
