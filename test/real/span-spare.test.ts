// A spare member on real btrfs: beside the filesystem, ready before it is needed, and nothing of it lost by mistake.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { SpanMember } from "../../src/agent/member-drivers/span-member.ts";
import type { SpanStorage } from "../../src/agent/storage/span/span-storage.ts";
import type { MountedSpan, SpanVolume } from "../../src/agent/storage/storage.ts";
import { directEffects } from "../../src/platform/process/effects/effects.ts";
import { describeReal, LOOP_PARTS } from "../harness/real-parts.ts";
import {
  createSpanFixture,
  leaving,
  makeMember,
  makeSpan,
  type SpanFixture,
  spanStorageIn,
  withMembers,
} from "../integration/storage/span-fixture.ts";
import { GIB, makeShrinkControl } from "../integration/storage/storage-fixture.ts";

describeReal("a span with a spare member", LOOP_PARTS, () => {
  let fixture: SpanFixture;
  let storage: SpanStorage;
  let m0: SpanMember;
  let m1: SpanMember;
  let volume: SpanVolume;
  let mounted: MountedSpan;

  beforeEach(async () => {
    fixture = await createSpanFixture();
    storage = fixture.storage;
    m0 = makeMember(fixture, "m0", GIB);
    m1 = { ...makeMember(fixture, "m1", GIB), wanted: "Spare" };
    volume = makeSpan([m0, m1]);
    mounted = await storage.stage(volume, 0, fixture.mountPathOf(volume));
  });
  afterEach(() => fixture.cleanUp());

  const taken = (): MountedSpan => withMembers(mounted, [m0, { ...m1, wanted: "Present" }]);
  const capacity = async (): Promise<number> => (await storage.freshReading(mounted)).capacityBytes;
  const deviceOf = (member: SpanMember): string => fixture.deviceOf(member) ?? "";
  const devices = (): string[] => readdirSync(`/sys/fs/btrfs/${volume.fsid}/devices`);
  const states = async (of = mounted) => (await storage.members(of)).map(({ name, state }) => `${name} ${state}`);

  it("has its device published beside the filesystem, once, and carries nothing", async () => {
    expect(await states()).toEqual(["m0 Present"]);
    await storage.prepareSpares(mounted);
    const published = fixture.driver.calls.length;
    await storage.prepareSpares(mounted);
    expect(fixture.driver.calls).toHaveLength(published);
    expect(await storage.members(mounted)).toContainEqual({ name: "m1", state: "Spare", sizeBytes: GIB });
    expect(devices()).toEqual([basename(deviceOf(m0))]);
    expect(execFileSync("blkid", ["--probe", "--output", "value", deviceOf(m0)]).toString()).toContain("btrfs");
    expect(() => execFileSync("blkid", ["--probe", deviceOf(m1)])).toThrow();
  });

  it("is taken in by no extend before it is wanted", async () => {
    await storage.prepareSpares(mounted);
    await expect(storage.extend(mounted, 2 * GIB)).rejects.toMatchObject({ code: "WaitingForMember" });
    expect(await capacity()).toBe(GIB);
  });

  it("is taken in with its driver gone", async () => {
    await storage.prepareSpares(mounted);
    await fixture.driver.stop();
    expect(await storage.extend(taken(), 2 * GIB)).toBe(2 * GIB);
    expect(await states(taken())).toEqual(["m0 Present", "m1 Present"]);
  });

  it("gives way to an extend while its driver does not answer, and is prepared later", async () => {
    const m2 = makeMember(fixture, "m2", GIB);
    let answer = (): void => {};
    const answered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const { before, requests } = fixture.driver;
    const asked = new Promise<void>((resolve) => {
      before.set("NodeStageVolume", async () => {
        const { volumeId } = requests.get("NodeStageVolume") as { volumeId: string };
        if (volumeId !== m1.volume?.volumeHandle) return;
        resolve();
        await answered;
      });
    });
    const preparing = storage.prepareSpares(mounted).catch((error: unknown) => error);
    await asked;
    const grown = withMembers(mounted, [m0, m1, m2]);
    expect(await storage.extend(grown, 2 * GIB)).toBe(2 * GIB);
    expect(await preparing).toMatchObject({ code: "WaitingForMember" });
    expect(await states(grown)).toEqual(["m0 Present", "m2 Present"]);
    answer();
    before.clear();
    await storage.prepareSpares(grown);
    expect(await states(grown)).toEqual(["m0 Present", "m2 Present", "m1 Spare"]);
    await storage.unstage(grown, mounted.mountPath);
  });

  it("is taken in before a member whose driver does not expand it on this node", async () => {
    await storage.prepareSpares(mounted);
    fixture.driver.refusals.set("NodeExpandVolume", { code: status.INTERNAL, details: "the array is on fire" });
    const grown: SpanMember = { ...m0, sizeBytes: 2 * GIB, capacityBytes: 2 * GIB };
    const before = fixture.driver.calls.length;
    const wanted = withMembers(mounted, [grown, { ...m1, wanted: "Present" }]);
    expect(await storage.extend(wanted, 2 * GIB)).toBe(2 * GIB);
    expect(fixture.driver.calls.slice(before)).toEqual([]);
  });

  it("is taken in, too, that nobody has prepared", async () => {
    expect(await storage.extend(taken(), 2 * GIB)).toBe(2 * GIB);
  });

  it("is found by an agent that has never heard that it was taken in", async () => {
    await storage.extend(taken(), 2 * GIB);
    await storage.unstage(taken(), mounted.mountPath);
    mounted = await storage.stage({ ...volume, formatted: true }, 0, mounted.mountPath);
    expect(await capacity()).toBe(2 * GIB);
    await storage.prepareSpares(mounted);
    expect(await states()).toEqual(["m0 Present", "m1 Present"]);
    // Nor is it moved off, wiped or given back by anybody who still calls it a spare.
    await storage.releaseMembers(mounted);
    expect(await storage.recover(mounted)).toBe(2 * GIB);
    expect(devices()).toHaveLength(2);
  });

  it("takes what moves off a member that leaves, though it is still called a spare", async () => {
    await storage.extend(taken(), 2 * GIB);
    const control = makeShrinkControl({ reserveBytes: () => 0 });
    const result = await storage.shrink(withMembers(mounted, [leaving(m0), m1]), GIB, control);
    expect(result).toMatchObject({ outcome: "Succeeded", sizeBytes: GIB });
    expect(devices()).toEqual([basename(deviceOf(m1))]);
  });

  it("that carries a signature is none, and is left as it is", async () => {
    execFileSync("mkfs.ext4", ["-q", fixture.fileOf(m1)]);
    await storage.prepareSpares(mounted);
    expect(await states()).toEqual(["m0 Present", "m1 Refused"]);
    expect(execFileSync("blkid", ["--probe", deviceOf(m1)]).toString()).toContain("ext4");
  });

  it("is not let go of with what has left, and given back when it shall leave itself", async () => {
    await storage.prepareSpares(mounted);
    await storage.releaseMembers(mounted);
    expect(await states()).toEqual(["m0 Present", "m1 Spare"]);
    const dropped = withMembers(mounted, [m0, leaving(m1)]);
    await storage.releaseMembers(dropped);
    expect(await states(dropped)).toEqual(["m0 Present", "m1 Removed"]);
    expect(deviceOf(m1)).toBe("");
    expect(devices()).toEqual([basename(deviceOf(m0))]);
  });

  it("is given back with the others, and prepared anew by the next agent", async () => {
    await storage.prepareSpares(mounted);
    const next = spanStorageIn(fixture.directory, directEffects);
    expect((await next.members(mounted)).map(({ name }) => name)).toEqual(["m0"]);
    await next.prepareSpares(mounted);
    expect(await next.members(mounted)).toContainEqual({ name: "m1", state: "Spare", sizeBytes: GIB });
    await next.unstage(mounted, mounted.mountPath);
    expect(deviceOf(m1)).toBe("");
    expect(existsSync(join(fixture.deviceDirectory, volume.handle))).toBe(false);
  });

  it("whose driver refuses costs the filesystem nothing", async () => {
    fixture.driver.refusals.set("NodeStageVolume", { code: status.RESOURCE_EXHAUSTED, details: "full" });
    await expect(storage.prepareSpares(mounted)).rejects.toMatchObject({ message: expect.stringContaining("full") });
    fixture.driver.refusals.clear();
    writeFileSync(join(mounted.mountPath, "file"), "written");
    expect(await states()).toEqual(["m0 Present"]);
    await storage.prepareSpares(mounted);
    expect(await states()).toEqual(["m0 Present", "m1 Spare"]);
  });

  it("beside which a rebuilt layout knows no spare does not keep the filesystem from being mounted, and is not formatted", async () => {
    await storage.prepareSpares(mounted);
    await storage.unstage(mounted, mounted.mountPath);
    const unsized = [m0, m1].map(({ sizeBytes: _size, ...member }): SpanMember => ({ ...member, wanted: "Present" }));
    const rebuilt = { ...volume, formatted: true, members: unsized };
    mounted = await storage.stage(rebuilt, 0, mounted.mountPath);
    expect(await capacity()).toBe(GIB);
    expect(await states()).toEqual(["m0 Present"]);
    expect(() => execFileSync("blkid", ["--probe", deviceOf(m1)])).toThrow();
  });
});
