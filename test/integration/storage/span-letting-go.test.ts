// How a mounted span lets go of members: each by itself, and by nothing that is recorded or found of another volume, boot or disk. Real btrfs
// over a real CSI node plugin.
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { basename, join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { SpanMember } from "../../../src/agent/member-drivers/span-member.ts";
import { mountAt } from "../../../src/agent/storage/filesystem/devices-and-mounts.ts";
import type { SpanStorage } from "../../../src/agent/storage/span/span-storage.ts";
import type { MountedSpan } from "../../../src/agent/storage/storage.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { makeNode } from "../../harness/loop-member-driver.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import {
  attachInstead,
  bytesOf,
  createSpanFixture,
  DRIVER,
  leaving,
  makeMember,
  makeSpan,
  NO_DISK,
  type SpanFixture,
  spanStorageIn,
  withMembers,
} from "./span-fixture.ts";
import { GIB, makeShrinkControl } from "./storage-fixture.ts";

describeReal("a span that lets go of members", LOOP_PARTS, () => {
  let fixture: SpanFixture;
  let storage: SpanStorage;
  let m0: SpanMember;
  let m1: SpanMember;
  let m2: SpanMember;
  let mounted: MountedSpan;

  beforeEach(async () => {
    fixture = await createSpanFixture();
    storage = fixture.storage;
    [m0, m1, m2] = [makeMember(fixture, "m0", GIB), makeMember(fixture, "m1", GIB), makeMember(fixture, "m2", GIB)];
    const volume = makeSpan([m0]);
    mounted = await storage.stage(volume, 0, fixture.mountPathOf(volume));
  });
  afterEach(() => fixture.cleanUp());

  const of = (...others: readonly SpanMember[]): MountedSpan => withMembers(mounted, [m0, ...others]);
  const states = async (volume: MountedSpan, by = storage): Promise<string[]> =>
    (await by.members(volume)).map(({ name, state }) => `${name} ${state}`);
  const devices = (): string[] => readdirSync(`/sys/fs/btrfs/${mounted.fsid}/devices`).sort();
  const publishedPath = ({ name }: SpanMember): string => join(fixture.deviceDirectory, mounted.handle, name, "device");
  const attachByHand = (member: SpanMember): string =>
    execFileSync("losetup", ["--find", "--show", fixture.fileOf(member)])
      .toString()
      .trim();
  const writeRemoval = (removal: object): void => {
    const path = join(fixture.recordDirectory, `${mounted.handle}.span.json`);
    const record = JSON.parse(readFileSync(path, "utf8")) as object;
    writeFileSync(path, JSON.stringify({ ...record, removals: [removal] }));
  };

  /** Their driver takes none of these back. */
  const holdBack = (...members: readonly SpanMember[]): void => {
    const { before, refusals, requests } = fixture.driver;
    const handles = members.map(({ volume }) => volume?.volumeHandle);
    before.set("NodeUnpublishVolume", async () => {
      const { volumeId } = requests.get("NodeUnpublishVolume") as { volumeId: string };
      if (!handles.includes(volumeId)) refusals.clear();
      else refusals.set("NodeUnpublishVolume", { code: status.INTERNAL, details: "the array is on fire" });
    });
  };
  const takeBack = (): void => {
    fixture.driver.before.clear();
    fixture.driver.refusals.clear();
  };

  it("lets go of those that can be let go of, and names each that cannot", async () => {
    const going = of(leaving(m1), leaving(m2), leaving(makeMember(fixture, "m3", GIB)));
    holdBack(m1, m2);
    await expect(storage.releaseMembers(going)).rejects.toMatchObject({
      code: "MemberDriverFailed",
      message: expect.stringMatching(/member m1: .*; member m2: /),
    });
    expect(await states(going)).toEqual(["m0 Present", "m1 Leaving", "m2 Leaving", "m3 Removed"]);
    takeBack();
    await storage.releaseMembers(going);
    expect(await states(going)).toEqual(["m0 Present", "m1 Removed", "m2 Removed", "m3 Removed"]);
  });

  it("is made smaller although a member that left before cannot be let go of", async () => {
    await storage.extend(of(m2), 2 * GIB);
    holdBack(m1);
    const smaller = of(leaving(m1), leaving(m2));
    expect(await storage.shrink(smaller, GIB, makeShrinkControl())).toEqual({ outcome: "Succeeded", sizeBytes: GIB });
    expect(await states(smaller)).toEqual(["m0 Present", "m1 Leaving", "m2 Removed"]);
    await expect(storage.releaseMembers(smaller)).rejects.toMatchObject({ code: "MemberDriverFailed" });
  });

  it("gives back all that is asked for, and then says which of the members that it took out cannot be let go of", async () => {
    await storage.extend(of(m1, m2), 3 * GIB);
    holdBack(m1);
    const smaller = of(leaving(m1), leaving(m2));
    await expect(storage.shrink(smaller, GIB, makeShrinkControl())).rejects.toMatchObject({
      code: "MemberDriverFailed",
    });
    expect(await storage.sizeBytes(smaller)).toBe(GIB);
    expect(await states(smaller)).toEqual(["m0 Present", "m1 Leaving", "m2 Removed"]);
  });

  it.each<[string, Partial<SpanMember>]>([
    ["an extend", {}],
    ["an emergency", { taken: true }],
  ])("names a disk that has vanished since %s took it in, which nothing has reported yet", async (_what, change) => {
    await storage.extend(of(m1), 2 * GIB);
    const path = publishedPath(m1);
    const gone = join(fixture.directory, "gone");
    execFileSync("umount", [path]);
    execFileSync("mknod", [gone, ...NO_DISK]);
    execFileSync("mount", ["--bind", gone, path]);
    const vanished = { code: "MembersMissing", message: expect.stringMatching(/m1\/device .* vanished/) };
    const unreported = of({ ...m1, ...change });
    await expect(storage.members(unreported)).rejects.toMatchObject(vanished);
    await expect(storage.extend(unreported, 3 * GIB)).rejects.toMatchObject(vanished);
    await expect(storage.releaseMembers(of(leaving(m1)))).rejects.toMatchObject(vanished);
    await storage.unstage(unreported, mounted.mountPath);
    expect(fixture.deviceOf(m1)).toBeUndefined();
  });

  it("counts on no spare whose disk has gone, and whose name another disk has by now", async () => {
    const spare: SpanMember = { ...m1, wanted: "Spare" };
    await storage.prepareSpares(of(spare));
    expect(await states(of(spare))).toEqual(["m0 Present", "m1 Spare"]);
    const somebodys = fixture.fileOf(m2);
    const device = fixture.deviceOf(m1) ?? "";
    attachInstead(device, somebodys);
    expect(await states(of(spare))).toEqual(["m0 Present"]);
    expect(await storage.extend(of(m1), 2 * GIB)).toBe(2 * GIB);
    expect(devices()).toEqual([m0, m1].map((member) => basename(fixture.deviceOf(member) ?? "")).sort());
    expect(bytesOf(somebodys, 65_536, 4096).every((byte) => byte === 0)).toBe(true);
    execFileSync("losetup", ["--detach", device]);
  });

  it("names the device of a member that has the name and the number of one that left, and is mounted from it again", async () => {
    // As where etcd was put back to before the name was given.
    const again = makeMember(fixture, "m1", GIB);
    const identities: (string | undefined)[] = [];
    for (const member of [m1, again]) {
      await storage.extend(of(member), 2 * GIB);
      const [, found] = await storage.members(of(member));
      identities.push(found?.deviceUUID);
      expect(found).toMatchObject({ name: "m1", state: "Present", devid: 2 });
      if (member === m1) await storage.shrink(of(leaving(m1)), GIB, makeShrinkControl());
    }
    const [former, deviceUUID = ""] = identities;
    expect(deviceUUID).not.toBe(former);
    const reported = of({ ...again, wasInside: true, reported: { devid: 2, deviceUUID } });
    await storage.unstage(reported, mounted.mountPath);
    await storage.stage(reported, 0, mounted.mountPath);
    expect(await states(reported)).toEqual(["m0 Present", "m1 Present"]);
  });

  it.each<[string, () => string]>([
    ["a blank disk of somebody's", () => attachByHand(m2)],
    ["the disk of another member", () => fixture.deviceOf(m0) ?? ""],
  ])(
    "finds the device of one that left before a reboot, though a device node leads to %s by now",
    async (_what, other) => {
      fixture.driver.publishing.by = "device node";
      await storage.extend(of(m1), 2 * GIB);
      const [, { devid, deviceUUID } = {}] = await storage.members(of(m1));
      writeRemoval({ member: "m1", devid, deviceUUID, sizeBytes: GIB, state: "leaving" });
      execFileSync("btrfs", ["device", "remove", "2", mounted.mountPath]);
      for (const path of [mounted.mountPath, publishedPath(m0)]) execFileSync("umount", [path]);
      for (const member of [m0, m1]) execFileSync("losetup", ["--detach", fixture.deviceOf(member) ?? ""]);
      const next = spanStorageIn(fixture.directory, directEffects, "next");
      const going = await next.stage(of(leaving(m1)), 0, mounted.mountPath);
      rmSync(publishedPath(m1));
      makeNode(publishedPath(m1), other());
      expect(await states(going, next)).toEqual(["m0 Present", "m1 Leaving"]);
      await next.releaseMembers(going);
      expect(await states(going, next)).toEqual(["m0 Present", "m1 Removed"]);
      expect(bytesOf(fixture.fileOf(m1), 65_536, 4096).every((byte) => byte === 0)).toBe(true);
      expect([m0, m1].map((member) => fixture.deviceOf(member) !== undefined)).toEqual([true, false]);
    },
  );

  /** As after it was pulled: its number is another disk's, which somebody has mounted. */
  const giveNumberAway = (member: SpanMember, other: SpanMember): string => {
    const mountPoint = join(fixture.directory, "mounts", "somebodys");
    mkdirSync(mountPoint, { recursive: true });
    execFileSync("mkfs.ext4", ["-q", fixture.fileOf(other)]);
    const device = fixture.deviceOf(member) ?? "";
    attachInstead(device, fixture.fileOf(other));
    execFileSync("mount", [device, mountPoint]);
    return mountPoint;
  };
  const reported = async (member: SpanMember): Promise<SpanMember> => {
    const { devid = 0, deviceUUID = "" } =
      (await storage.members(of(member))).find(({ name }) => name === member.name) ?? {};
    return { ...member, wasInside: true, reported: { devid, deviceUUID } };
  };

  it("asks the driver to take back a disk that is there and cannot be opened, as at the end of a path that is offline", async () => {
    const spare: SpanMember = { ...m1, wanted: "Spare" };
    await storage.prepareSpares(of(spare));
    const device = fixture.deviceOf(m1) ?? "";
    const socket = join(fixture.directory, "socket");
    const server = createServer().listen(socket);
    await once(server, "listening");
    // The kernel's answer to an open is that of an offline disk: ENXIO.
    execFileSync("mount", ["--bind", socket, device]);
    const reconnect = (): void => void execFileSync("umount", [device]);
    try {
      await expect(storage.extend(of(m1), 2 * GIB)).rejects.toMatchObject({
        code: "MembersMissing",
        message: expect.stringContaining(`${device} is there and cannot be opened (ENXIO)`),
      });
      fixture.driver.before.set("NodeUnstageVolume", async () => {
        const { volumeId } = fixture.driver.requests.get("NodeUnstageVolume") as { volumeId: string };
        if (volumeId === m1.volume?.volumeHandle) reconnect();
      });
      await storage.unstage(of(spare), mounted.mountPath);
      expect([m0, m1].map((member) => fixture.deviceOf(member))).toEqual([undefined, undefined]);
    } finally {
      server.close();
      if (mountAt(device) !== undefined) reconnect();
    }
  });

  it.each<["bind mount" | "device node"]>([["bind mount"], ["device node"]])(
    "lets go of all where the number of a disk that has gone is another one's by now, which is in use: its path is a %s",
    async (by) => {
      fixture.driver.publishing.by = by;
      await storage.extend(of(m1), 2 * GIB);
      const all = of(await reported(m1));
      execFileSync("umount", [mounted.mountPath]);
      const somebodys = giveNumberAway(m1, m2);
      const next = spanStorageIn(fixture.directory, directEffects);
      await next.unstage(all, mounted.mountPath);
      expect([m0, m1].map((member) => fixture.deviceOf(member))).toEqual([undefined, undefined]);
      expect(existsSync(publishedPath(m1))).toBe(false);
      expect(fixture.deviceOf(m2)).toBeDefined();
      execFileSync("umount", [somebodys]);
    },
  );

  it("lets go after a reboot of what an agent of an earlier version has published, whatever its path leads to by then", async () => {
    fixture.driver.publishing.by = "device node";
    await storage.extend(of(m1), 2 * GIB);
    const all = of(await reported(m1), m2);
    // One that is left from before an earlier reboot leads to a device that is another member's by now.
    mkdirSync(join(publishedPath(m2), ".."), { recursive: true });
    makeNode(publishedPath(m2), fixture.deviceOf(m0) ?? "");
    const bootsOf = ({ name }: SpanMember): string[] =>
      readdirSync(join(fixture.deviceDirectory, mounted.handle, name)).filter((entry) => entry.startsWith("boot-"));
    for (const member of [m0, m1]) rmSync(join(publishedPath(member), "../boot-this"), { recursive: true });
    await storage.recover(all);
    expect([m0, m1, m2].map(bootsOf)).toEqual([[], ["boot-this"], []]);
    rmSync(publishedPath(m2));
    await storage.recover(all);
    expect([m0, m1, m2].map(bootsOf)).toEqual([["boot-this"], ["boot-this"], []]);
    execFileSync("umount", [mounted.mountPath]);
    const somebodys = giveNumberAway(m1, makeMember(fixture, "somebodys", GIB));
    await spanStorageIn(fixture.directory, directEffects, "next").unstage(all, mounted.mountPath);
    expect([m0, m1].map((member) => existsSync(publishedPath(member)))).toEqual([false, false]);
    execFileSync("umount", [somebodys]);
  });

  it.each(["leaving", "released"])(
    "looks at a member whose name is recorded as %s of another volume, and leaves what its device carries",
    async (state) => {
      const former = { driver: DRIVER, volumeHandle: "former" };
      const deviceUUID = "00000000-0000-4000-8000-000000000000";
      writeRemoval({ member: "m1", devid: 2, deviceUUID, volume: former, epoch: 1, sizeBytes: GIB, state });
      execFileSync("mkfs.ext4", ["-q", fixture.fileOf(m1)]);
      expect(await states(of(leaving(m1)))).toEqual(["m0 Present", "m1 Leaving"]);
      await storage.releaseMembers(of(leaving(m1)));
      expect(await states(of(leaving(m1)))).toEqual(["m0 Present", "m1 Refused"]);
      expect(fixture.deviceOf(m1)).toBeDefined();
      execFileSync("wipefs", ["--all", "--quiet", fixture.deviceOf(m1) ?? ""]);
      expect(await storage.extend(of(m1), 2 * GIB)).toBe(2 * GIB);
      expect(devices()).toEqual([m0, m1].map((member) => basename(fixture.deviceOf(member) ?? "")).sort());
    },
  );
});
