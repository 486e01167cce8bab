// Members whose devices carry something, outside of a mounted span: nothing of theirs is lost by mistake, and nothing else waits for them.
// Real btrfs over a real CSI node plugin.
import { execFileSync } from "node:child_process";
import { closeSync, constants, existsSync, mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { SpanMember } from "../../../src/agent/member-drivers/span-member.ts";
import type { SpanStorage } from "../../../src/agent/storage/span/span-storage.ts";
import type { MountedSpan } from "../../../src/agent/storage/storage.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import { waitFor } from "../../harness/wait-for.ts";
import {
  createSpanFixture,
  leaving,
  makeMember,
  makeSpan,
  NO_DISK,
  type SpanFixture,
  spanStorageIn,
  withMembers,
} from "./span-fixture.ts";
import { GIB, makeShrinkControl } from "./storage-fixture.ts";

describeReal("a member of a span whose device carries something", LOOP_PARTS, () => {
  let fixture: SpanFixture;
  let storage: SpanStorage;
  let m0: SpanMember;
  let m1: SpanMember;
  let m2: SpanMember;
  let mounted: MountedSpan;
  /** Exclusively. */
  const held: number[] = [];

  beforeEach(async () => {
    fixture = await createSpanFixture();
    storage = fixture.storage;
    [m0, m1, m2] = [makeMember(fixture, "m0", GIB), makeMember(fixture, "m1", GIB), makeMember(fixture, "m2", GIB)];
    const volume = makeSpan([m0]);
    mounted = await storage.stage(volume, 0, fixture.mountPathOf(volume));
    execFileSync("mkfs.ext4", ["-q", fixture.fileOf(m1)]);
  });
  afterEach(() => {
    for (const file of held.splice(0)) closeSync(file);
    return fixture.cleanUp();
  });

  const of = (...others: readonly SpanMember[]): MountedSpan => withMembers(mounted, [m0, ...others]);
  const states = async (volume: MountedSpan, by = storage): Promise<string[]> =>
    (await by.members(volume)).map(({ name, state }) => `${name} ${state}`);
  const carries = (member: SpanMember): string =>
    execFileSync("blkid", ["--probe", "--output", "value", "--match-tag", "TYPE", fixture.fileOf(member)])
      .toString()
      .trim();

  it("stays where it is asked to go before anybody has looked at it, and goes once its layout says what is known of it", async () => {
    const withdrawn = of(leaving(m1), leaving(m2));
    expect(await states(withdrawn)).toEqual(["m0 Present", "m1 Leaving", "m2 Leaving"]);
    await storage.releaseMembers(withdrawn);
    expect(await states(withdrawn)).toEqual(["m0 Present", "m1 Refused", "m2 Removed"]);
    // The next agent knows nothing of it, and looks again.
    const next = spanStorageIn(fixture.directory, directEffects);
    await next.releaseMembers(withdrawn);
    expect(await states(withdrawn, next)).toEqual(["m0 Present", "m1 Refused", "m2 Removed"]);
    expect(carries(m1)).toBe("ext4");
    const asked = of({ ...leaving(m1), refused: true });
    expect(await states(asked, next)).toEqual(["m0 Present", "m1 Leaving"]);
    await next.releaseMembers(asked);
    expect(await states(asked, next)).toEqual(["m0 Present", "m1 Removed"]);
    expect(carries(m1)).toBe("ext4");
  });

  /** As LVM or MD would that the node's own rules start on what a disk carries, as soon as the driver has brought it. */
  const holdingOnceThere = (member: SpanMember): void => {
    const { before, requests } = fixture.driver;
    before.set("NodePublishVolume", async () => {
      const { volumeId } = requests.get("NodePublishVolume") as { volumeId: string };
      const device = volumeId === member.volume?.volumeHandle ? fixture.deviceOf(member) : undefined;
      if (device !== undefined && held.length === 0) held.push(openSync(device, constants.O_RDONLY | constants.O_EXCL));
    });
  };

  it("is named where the node holds it for what it carries, and the others are taken in", async () => {
    holdingOnceThere(m1);
    await expect(storage.extend(of(m1, m2), 3 * GIB)).rejects.toMatchObject({ code: "SignatureFound" });
    expect(held).toHaveLength(1);
    expect(await states(of(m1, m2))).toEqual(["m0 Present", "m2 Present", "m1 Refused"]);
  });

  it("is not named so where it is only held: it is waited for, and the others are taken in meanwhile", async () => {
    execFileSync("wipefs", ["--all", "--quiet", fixture.fileOf(m1)]);
    holdingOnceThere(m1);
    await expect(storage.extend(of(m1, m2), 3 * GIB)).rejects.toMatchObject({ code: "DeviceBusy" });
    expect(await states(of(m1, m2))).toEqual(["m0 Present", "m2 Present"]);
    fixture.driver.before.clear();
    for (const file of held.splice(0)) closeSync(file);
    expect(await storage.extend(of(m1, m2), 3 * GIB)).toBe(3 * GIB);
  });

  it("costs an extend nothing that has room enough without it, whatever is wrong with it", async () => {
    const { before, refusals, requests } = fixture.driver;
    before.set("NodeStageVolume", async () => {
      const { volumeId } = requests.get("NodeStageVolume") as { volumeId: string };
      if (volumeId !== m1.volume?.volumeHandle) refusals.clear();
      else refusals.set("NodeStageVolume", { code: status.INTERNAL, details: "the array is on fire" });
    });
    expect(await storage.extend(of(m1, m2), 2 * GIB)).toBe(2 * GIB);
    await expect(storage.extend(of(m1, m2), 3 * GIB)).rejects.toMatchObject({ code: "MemberDriverFailed" });
  });

  it("is looked at where it is, so that nobody loses it who looks at it, and last, after spares that may be ready", async () => {
    const beside = of({ ...m1, wanted: "Spare" }, { ...m2, wanted: "Spare" });
    await storage.prepareSpares(of({ ...m1, wanted: "Spare" }));
    const device = fixture.deviceOf(m1) ?? "";
    const mountPoint = join(fixture.directory, "mounts", "looked-at");
    mkdirSync(mountPoint, { recursive: true });
    execFileSync("mount", ["-o", "ro", device, mountPoint]);
    const before = fixture.driver.calls.length;
    const [, looked] = await storage.members(beside);
    await storage.prepareSpares(beside);
    expect(callsAfter(before, m1)).toEqual([]);
    expect(await states(beside)).toEqual(["m0 Present", "m2 Spare", "m1 Refused"]);
    const again = (await storage.members(beside)).find(({ name }) => name === "m1");
    expect(again?.lookedMs).toBeGreaterThan(looked?.lookedMs ?? 0);
    execFileSync("umount", [mountPoint]);
    // The driver of a spare that is wanted does not answer: the refused one has its turn, too.
    const m3: SpanMember = { ...makeMember(fixture, "m3", GIB), wanted: "Spare" };
    execFileSync("wipefs", ["--all", "--quiet", device]);
    fixture.driver.refusals.set("NodeStageVolume", { code: status.INTERNAL, details: "the array is on fire" });
    fixture.driver.before.set("NodeStageVolume", async () => {
      const { volumeId } = fixture.driver.requests.get("NodeStageVolume") as { volumeId: string };
      if (volumeId === m1.volume?.volumeHandle) fixture.driver.refusals.clear();
    });
    const all = withMembers(beside, [...beside.members, m3]);
    await expect(storage.prepareSpares(all)).rejects.toMatchObject({ code: "MemberDriverFailed" });
    expect(await states(all)).toEqual(["m0 Present", "m1 Spare", "m2 Spare"]);
  });

  const mountForeign = (member: SpanMember): string => {
    const mountPoint = join(fixture.directory, "mounts", "foreign");
    mkdirSync(mountPoint, { recursive: true });
    execFileSync("mount", [fixture.deviceOf(member) ?? "", mountPoint]);
    return mountPoint;
  };

  it("stays with who has it mounted while its volume is unstaged, and keeps no other member, nor the next mount", async () => {
    const beside = of({ ...m1, wanted: "Spare" }, { ...m2, wanted: "Spare" });
    await storage.prepareSpares(beside);
    const foreign = mountForeign(m1);
    const busy = { code: "DeviceBusy", message: expect.stringMatching(/^DeviceBusy: end what holds member m1 .*ext4/) };
    await expect(storage.unstage(beside, mounted.mountPath)).rejects.toMatchObject(busy);
    expect([m0, m1, m2].map((member) => fixture.deviceOf(member) !== undefined)).toEqual([false, true, false]);
    const calls = (): string[] => fixture.driver.calls.filter((call) => call.endsWith(m1.volume?.volumeHandle ?? ""));
    const before = calls();
    const inside = withMembers(beside, [{ ...m0, wasInside: true }, ...beside.members.slice(1)]);
    await storage.stage({ ...inside, formatted: true }, 0, mounted.mountPath);
    await storage.prepareSpares(beside);
    expect(await states(beside)).toEqual(["m0 Present", "m2 Spare", "m1 Refused"]);
    await expect(storage.unstage(beside, mounted.mountPath)).rejects.toMatchObject(busy);
    expect(calls()).toEqual(before);
    execFileSync("umount", [foreign]);
    // Asked again, as kubelet does: a suite that runs at the same time may have copied that mount into a namespace of its own.
    await waitFor("the unstage", () => storage.unstage(beside, mounted.mountPath).then(() => true));
    expect(fixture.deviceOf(m1)).toBeUndefined();
  });

  it.each<readonly [string, () => SpanMember]>([
    ["was in it when that was looked at", () => ({ ...m1, wasInside: true })],
    ["was reported of it", () => ({ ...m1, reported: { deviceUUID: "of-another-node", devid: 2 } })],
    [
      "carries its superblock",
      () => {
        const block = ["bs=4096", "skip=16", "seek=16", "count=1", "conv=notrunc", "status=none"];
        execFileSync("dd", [`if=${fixture.fileOf(m0)}`, `of=${fixture.deviceOf(m1)}`, ...block]);
        return m1;
      },
    ],
  ])("holds up the unstage where it may be of the filesystem after all: it %s", async (_what, prepare) => {
    await storage.prepareSpares(of({ ...m1, wanted: "Spare" }));
    const member = prepare();
    held.push(openSync(fixture.deviceOf(m1) ?? "", constants.O_RDONLY | constants.O_EXCL));
    const all = of({ ...member, wanted: "Spare" });
    await expect(storage.unstage(all, mounted.mountPath)).rejects.toMatchObject({ code: "DeviceBusy" });
    expect(fixture.deviceOf(m0)).toBeDefined();
    for (const file of held.splice(0)) closeSync(file);
    await storage.unstage(all, mounted.mountPath);
    expect(fixture.deviceOf(m0)).toBeUndefined();
  });

  const callsAfter = (before: number, { volume }: SpanMember): string[] =>
    fixture.driver.calls.slice(before).filter((call) => call.endsWith(volume?.volumeHandle ?? ""));
  /** As the layout says it to the next agent. */
  const known = async (member: SpanMember): Promise<SpanMember> => {
    const { why } = (await storage.members(of(member))).find(({ name }) => name === member.name) ?? {};
    return { ...member, carried: why ?? "" };
  };

  it("is looked at where it is by the next agent, too, and last", async () => {
    const spare: SpanMember = { ...m1, wanted: "Spare" };
    await storage.prepareSpares(of(spare));
    const beside = of(await known(spare), { ...m2, wanted: "Spare" });
    const mountPoint = join(fixture.directory, "mounts", "looked-at");
    mkdirSync(mountPoint, { recursive: true });
    execFileSync("mount", ["-o", "ro", fixture.deviceOf(m1) ?? "", mountPoint]);
    const before = fixture.driver.calls.length;
    const next = spanStorageIn(fixture.directory, directEffects);
    await next.prepareSpares(beside);
    expect(callsAfter(before, m1)).toEqual([]);
    expect(await states(beside, next)).toEqual(["m0 Present", "m2 Spare", "m1 Refused"]);
    execFileSync("umount", [mountPoint]);
    execFileSync("wipefs", ["--all", "--quiet", fixture.deviceOf(m1) ?? ""]);
    const last = spanStorageIn(fixture.directory, directEffects);
    const calls = fixture.driver.calls.length;
    await last.prepareSpares(beside);
    expect(await states(beside, last)).toEqual(["m0 Present", "m1 Spare", "m2 Spare"]);
    const [first] = fixture.driver.calls.slice(calls).filter((call) => call.startsWith("NodeStageVolume"));
    expect(first).toBe(`NodeStageVolume ${m2.volume?.volumeHandle}`);
  });

  it("stays with who has formatted and mounted it since the last agent looked at it", async () => {
    const spare: SpanMember = { ...m1, wanted: "Spare" };
    await storage.prepareSpares(of(spare));
    const beside = of(await known(spare));
    const device = fixture.deviceOf(m1);
    execFileSync("mkfs.ext4", ["-qF", device ?? ""]);
    const foreign = mountForeign(m1);
    const before = fixture.driver.calls.length;
    const next = spanStorageIn(fixture.directory, directEffects);
    await next.prepareSpares(beside);
    expect(callsAfter(before, m1)).toEqual([]);
    expect(await states(beside, next)).toEqual(["m0 Present", "m1 Refused"]);
    execFileSync("umount", [foreign]);
  });

  it("is asked for anew by the next agent where its path leads to another disk, which is no reason against it", async () => {
    const spare: SpanMember = { ...m1, wanted: "Spare" };
    execFileSync("mkfs.ext4", ["-q", fixture.fileOf(m2)]);
    await storage.prepareSpares(of(spare, { ...m2, wanted: "Spare" }));
    const beside = of(await known(spare));
    execFileSync("wipefs", ["--all", "--quiet", fixture.deviceOf(m1) ?? ""]);
    const path = join(fixture.deviceDirectory, mounted.handle, m1.name, "device");
    execFileSync("umount", [path]);
    execFileSync("mount", ["--bind", fixture.deviceOf(m2) ?? "", path]);
    const next = spanStorageIn(fixture.directory, directEffects);
    await next.prepareSpares(beside);
    expect(await states(beside, next)).toEqual(["m0 Present", "m1 Spare"]);
  });

  /** Its disk is pulled: where its driver has published it, the path leads nowhere. */
  const vanish = (member: SpanMember): void => {
    const path = join(fixture.deviceDirectory, mounted.handle, member.name, "device");
    const gone = join(fixture.directory, "gone");
    execFileSync("umount", [path]);
    if (!existsSync(gone)) execFileSync("mknod", [gone, ...NO_DISK]);
    execFileSync("mount", ["--bind", gone, path]);
  };

  it("holds up nothing once its disk has vanished, and is found again where that has come back", async () => {
    const spare: SpanMember = { ...m1, wanted: "Spare" };
    await storage.prepareSpares(of(spare));
    vanish(m1);
    expect((await states(of(spare)))[0]).toBe("m0 Present");
    expect(await storage.extend(of(spare, m2), 2 * GIB)).toBe(2 * GIB);
    await storage.shrink(of(spare, leaving(m2)), GIB, makeShrinkControl());
    await storage.prepareSpares(of(spare));
    expect(await states(of(spare))).toEqual(["m0 Present", "m1 Refused"]);
    expect(fixture.deviceOf(m1)).toBeDefined();
    // So it is where it was asked to go, and nobody has looked at it.
    vanish(m1);
    const next = spanStorageIn(fixture.directory, directEffects);
    await next.releaseMembers(of(leaving(m1)));
    expect(await states(of(leaving(m1)), next)).toEqual(["m0 Present", "m1 Refused"]);
    await storage.unstage(of(spare), mounted.mountPath);
  });

  it("goes where a person has asked it to, though its disk has vanished", async () => {
    await storage.prepareSpares(of({ ...m1, wanted: "Spare" }));
    vanish(m1);
    fixture.driver.refusals.set("NodePublishVolume", { code: status.INTERNAL, details: "the disk is gone" });
    const asked = of({ ...leaving(m1), refused: true });
    await storage.releaseMembers(asked);
    expect(await states(asked)).toEqual(["m0 Present", "m1 Removed"]);
  });

  it("is no spare any more where somebody has written to it since it was ready", async () => {
    const spare: SpanMember = { ...m2, wanted: "Spare" };
    await storage.prepareSpares(of(spare));
    expect(await states(of(spare))).toEqual(["m0 Present", "m2 Spare"]);
    execFileSync("mkfs.ext4", ["-q", fixture.deviceOf(m2) ?? ""]);
    await expect(storage.extend(of(m2), 2 * GIB)).rejects.toMatchObject({ code: "SignatureFound" });
    expect(await states(of(spare))).toEqual(["m0 Present", "m2 Refused"]);
  });

  it("goes once somebody has wiped it, where it was asked to", async () => {
    await storage.releaseMembers(of(leaving(m1)));
    execFileSync("wipefs", ["--all", "--quiet", fixture.deviceOf(m1) ?? ""]);
    await storage.releaseMembers(of(leaving(m1)));
    expect(await states(of(leaving(m1)))).toEqual(["m0 Present", "m1 Removed"]);
  });

  it("stays where it was found so before, and is not attached here to be looked at", async () => {
    const { attachment: _none, ...away } = leaving(m1);
    const found = of({ ...away, carried: "its device carries a ext4 signature" });
    await storage.releaseMembers(found);
    expect(await states(found)).toEqual(["m0 Present", "m1 Refused"]);
    await storage.releaseMembers(of(away));
    expect(await states(of(away))).toEqual(["m0 Present", "m1 Refused"]);
    // Nobody has ever found anything.
    const next = spanStorageIn(fixture.directory, directEffects);
    await next.releaseMembers(of(away));
    expect(await states(of(away), next)).toEqual(["m0 Present", "m1 Removed"]);
  });

  it("stays where it was in this filesystem once, as no record here says, and somebody has used it since", async () => {
    execFileSync("wipefs", ["--all", "--quiet", fixture.fileOf(m1)]);
    await storage.extend(of(m1), 2 * GIB);
    execFileSync("btrfs", ["device", "remove", "2", mounted.mountPath]);
    execFileSync("mkswap", [fixture.deviceOf(m1) ?? ""], { stdio: "ignore" });
    await storage.releaseMembers(of(leaving(m1)));
    expect(await states(of(leaving(m1)))).toEqual(["m0 Present", "m1 Refused"]);
    expect(carries(m1)).toBe("swap");
  });
});
