// What is the backend lvm's own: reductions by token, whose volume a volume is, and what may be formatted. On the fake lvmd's real devices.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { status } from "@grpc/grpc-js";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { LvmVolume, MountedLvm } from "../../../src/agent/storage/storage.ts";
import { WIPE_BEGUN_TAG } from "../../../src/contracts/names.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import { waitFor } from "../../harness/wait-for.ts";
import {
  createLvmFixture,
  type LvmFixture,
  type LvmStorageUnderTest,
  makeLvmVolume,
  openLvmStorage,
} from "./lvm-fixture.ts";
import { GIB, MIB, makeShrinkControl } from "./storage-fixture.ts";
import { scatterFiles, verifyFiles } from "./written-files.ts";

const UNAVAILABLE = { code: status.UNAVAILABLE, details: "gone" };

describeReal("storage on logical volumes", LOOP_PARTS, () => {
  let fixture: LvmFixture;
  const agents: LvmStorageUnderTest[] = [];

  beforeEach(async () => {
    fixture = await createLvmFixture();
  });
  afterEach(async () => {
    for (const { lvm } of agents.splice(0)) lvm.stop();
    await fixture.cleanUp();
  });

  /** Another process' storage over the same lvmd; without a directory of its own it has the records of this one. */
  async function nextAgent(directory = fixture.directory): Promise<LvmStorageUnderTest> {
    const next = await openLvmStorage(directory, fixture.lvmd.socketPath, directEffects);
    agents.push(next);
    return next;
  }

  async function stage(volume: LvmVolume, sizeBytes = GIB): Promise<MountedLvm> {
    await fixture.provide(volume, sizeBytes);
    return fixture.storage.stage(volume, 0, fixture.mountPathOf(volume));
  }

  const volumeBytes = ({ deviceClass, volumeID }: LvmVolume): number =>
    fixture.lvmd.lvm.volumeOf(deviceClass, volumeID).sizeBytes;
  const callsOf = (...methods: string[]): string[] =>
    fixture.lvmd.calls.map((call) => call.split(" ")[0] ?? "").filter((method) => methods.includes(method));
  const records = (): string[] => readdirSync(fixture.recordDirectory);

  it("keeps every byte over a whole life of a btrfs", async () => {
    const volume = makeLvmVolume();
    const manifest = join(fixture.directory, "manifest");
    const mounted = await stage(volume, 2 * GIB);
    scatterFiles(mounted.mountPath, manifest, 60, 6);
    await fixture.storage.extend(mounted, 4 * GIB);
    const result = await fixture.storage.shrink(mounted, GIB, makeShrinkControl());
    expect(result).toEqual({ outcome: "Succeeded", sizeBytes: GIB });
    expect(volumeBytes(volume)).toBe(GIB);
    await fixture.storage.unstage(volume, mounted.mountPath);
    const again = await fixture.storage.stage(volume, 0, mounted.mountPath);
    expect(verifyFiles(again.mountPath, manifest)).toEqual({ files: 10, corrupt: [] });
    await fixture.storage.unstage(volume, mounted.mountPath);
    await fixture.storage.remove(volume);
    expect(await fixture.storage.sizeBytes(volume)).toBeUndefined();
    expect(records()).toEqual([]);
  });

  it("is activated where a reboot has left it inactive; one whose wipe has begun is not used any more", async () => {
    const volume = makeLvmVolume();
    const manifest = join(fixture.directory, "manifest");
    const mounted = await stage(volume);
    scatterFiles(mounted.mountPath, manifest, 20, 2);
    await fixture.storage.unstage(volume, mounted.mountPath);
    await fixture.lvmd.lvm.setActive(volume.volumeID, false);
    const again = await (await nextAgent()).storage.stage(volume, 0, mounted.mountPath);
    expect(verifyFiles(again.mountPath, manifest)).toEqual({ files: 10, corrupt: [] });
    expect(callsOf("ActivateLV")).toEqual(["ActivateLV"]);
    await fixture.storage.unstage(volume, mounted.mountPath);

    const { lvm } = fixture.lvmd;
    const { tags } = lvm.volumeOf("thick", volume.volumeID);
    lvm.retag(lvm.volumeOf("thick", volume.volumeID), [...tags, WIPE_BEGUN_TAG]);
    await lvm.setActive(volume.volumeID, false);
    await expect(fixture.storage.stage(volume, 0, mounted.mountPath)).rejects.toThrow("its data is wiped in part");
    expect(callsOf("ActivateLV")).toEqual(["ActivateLV"]);
    await fixture.storage.remove(volume);
    expect(lvm.volumes()).toEqual([]);
  });

  it("grows xfs with its volume, and gives what it does not use back", async () => {
    const mounted = await stage(makeLvmVolume("xfs"));
    expect(await fixture.storage.extend(mounted, 2 * GIB)).toBe(2 * GIB);
    expect((await fixture.storage.freshReading(mounted)).capacityBytes).toBeGreaterThan(1.9 * GIB);
    expect(await fixture.storage.trim(mounted)).toBeGreaterThan(GIB);
  });

  it.each(["ext4", "xfs"] as const)("makes %s, and never makes it smaller while it is mounted", async (fsType) => {
    const mounted = await stage(makeLvmVolume(fsType));
    await expect(fixture.storage.shrink(mounted, GIB / 2, makeShrinkControl())).rejects.toThrow(
      "cannot shrink while it is mounted",
    );
    expect(volumeBytes(mounted)).toBe(GIB);
    expect(callsOf("ReduceLV")).toEqual([]);
  });

  it("goes down in whole extents, and ends where the floor's extent ends", async () => {
    const mounted = await stage(makeLvmVolume(), 3 * GIB);
    const control = makeShrinkControl({ reserveBytes: () => GIB + 13 * MIB });
    const result = await fixture.storage.shrink(mounted, GIB / 2 + 1, control);
    expect(result.outcome).toBe("FloorReached");
    expect(volumeBytes(mounted)).toBe(result.sizeBytes);
    expect(result.sizeBytes % (4 * MIB)).toBe(0);
    expect((await fixture.storage.freshReading(mounted)).capacityBytes).toBe(result.sizeBytes);
  });

  /** The device's answer to ReduceLV is lost: before it is carried out, or after. */
  async function shrinkUnanswered(mounted: MountedLvm, when: "before" | "after"): Promise<void> {
    if (when === "before") fixture.lvmd.refusals.set("ReduceLV", UNAVAILABLE);
    else fixture.lvmd.silent.add("ReduceLV");
    await expect(fixture.storage.shrink(mounted, GIB, makeShrinkControl())).rejects.toMatchObject({
      code: "WaitingForMember",
    });
    fixture.lvmd.refusals.clear();
    fixture.lvmd.silent.clear();
    expect(records().filter((name) => name.endsWith(".reduction.json"))).toHaveLength(1);
  }

  it.each(["before", "after"] as const)(
    "grows again after a reduction whose answer was lost %s it was carried out, once lvmd has told the outcome",
    async (when) => {
      const mounted = await stage(makeLvmVolume(), 2 * GIB);
      await shrinkUnanswered(mounted, when);
      const reachedBytes = volumeBytes(mounted);
      expect(reachedBytes < 2 * GIB).toBe(when === "after");
      expect(await fixture.storage.extend(mounted, 3 * GIB)).toBe(3 * GIB);
      expect(callsOf("ReduceLV", "CancelReduce", "ResizeLV")).toEqual(["ReduceLV", "CancelReduce", "ResizeLV"]);
      expect((await fixture.storage.freshReading(mounted)).capacityBytes).toBe(3 * GIB);
      expect(records().filter((name) => name.endsWith(".reduction.json"))).toEqual([]);
    },
  );

  it("does not wait for what lvmd still zeroes: an extend has the reduction cancelled, and grows over it", async () => {
    const mounted = await stage(makeLvmVolume(), 2 * GIB);
    const isCalled = (method: string) => (): true | undefined => (callsOf(method).length > 0 ? true : undefined);
    fixture.lvmd.before.set("ReduceLV", () =>
      waitFor("its cancelling", isCalled("CancelReduce")).then(() => undefined),
    );
    const shrinking = fixture.storage.shrink(mounted, GIB, makeShrinkControl());
    await waitFor("lvmd to be at it", isCalled("ReduceLV"));
    expect(await fixture.storage.extend(mounted, 3 * GIB)).toBe(3 * GIB);
    expect(await shrinking).toMatchObject({ outcome: "Cancelled", sizeBytes: 2 * GIB });
    expect(callsOf("ReduceLV", "CancelReduce", "ResizeLV")).toEqual(["ReduceLV", "CancelReduce", "ResizeLV"]);
    expect((await fixture.storage.freshReading(mounted)).capacityBytes).toBe(3 * GIB);
    expect(records().filter((name) => name.endsWith(".reduction.json"))).toEqual([]);
  });

  it("makes sure, by burning its token, that a reduction which was never carried out never is", async () => {
    const mounted = await stage(makeLvmVolume(), 2 * GIB);
    await shrinkUnanswered(mounted, "before");
    const token = fixture.lvmd.calls.find((call) => call.startsWith("ReduceLV"))?.split(" ")[1] ?? "";
    await fixture.storage.recover(mounted);
    const late = { lvUuid: `uuid-of-${mounted.volumeID}`, fromBytes: 2 * GIB, toBytes: GIB, token };
    await expect(fixture.lvmd.lvm.reduce(late)).rejects.toThrow("burnt");
    expect((await fixture.storage.freshReading(mounted)).capacityBytes).toBe(2 * GIB);
  });

  it.each(["in the same agent", "in the next one", "in one that has lost its records"])(
    "does not grow while nobody can tell what became of a reduction: %s",
    async (who) => {
      const mounted = await stage(makeLvmVolume(), 2 * GIB);
      await shrinkUnanswered(mounted, "after");
      if (who === "in one that has lost its records") rmSync(fixture.recordDirectory, { recursive: true });
      const { storage } = who === "in the same agent" ? fixture : await nextAgent();
      fixture.lvmd.refusals.set("CancelReduce", UNAVAILABLE);
      await expect(storage.extend(mounted, 3 * GIB)).rejects.toMatchObject({ code: "WaitingForMember" });
      await expect(storage.recover(mounted)).rejects.toMatchObject({ code: "WaitingForMember" });
      expect(callsOf("ResizeLV")).toEqual([]);
      fixture.lvmd.refusals.clear();
      expect(await storage.extend(mounted, 3 * GIB)).toBe(3 * GIB);
      expect(readdirSync(fixture.directory).filter((name) => name.endsWith(".reduction.json"))).toEqual([]);
    },
  );

  it("grows a filesystem back that a shrink has left behind, with lvmd away, where no reduction was asked for", async () => {
    const mounted = await stage(makeLvmVolume(), 2 * GIB);
    execFileSync("btrfs", ["filesystem", "resize", "1g", mounted.mountPath], { stdio: "ignore" });
    await fixture.lvmd.stop();
    await fixture.storage.recover(mounted);
    expect((await fixture.storage.freshReading(mounted)).capacityBytes).toBe(2 * GIB);
    await fixture.lvmd.start();
  });

  it("asks what became of a refused reduction as well, before it goes on", async () => {
    const mounted = await stage(makeLvmVolume(), 2 * GIB);
    fixture.lvmd.refusals.set("ReduceLV", { code: status.FAILED_PRECONDITION, details: "the superblock ends beyond" });
    await expect(fixture.storage.shrink(mounted, GIB, makeShrinkControl())).rejects.toThrow("superblock ends beyond");
    fixture.lvmd.refusals.clear();
    const result = await fixture.storage.shrink(mounted, GIB, makeShrinkControl());
    expect(result).toEqual({ outcome: "Succeeded", sizeBytes: GIB });
    expect(callsOf("ReduceLV", "CancelReduce").slice(0, 3)).toEqual(["ReduceLV", "CancelReduce", "ReduceLV"]);
  });

  it("does not grow over a record of a reduction that cannot be read", async () => {
    const mounted = await stage(makeLvmVolume());
    writeFileSync(join(fixture.recordDirectory, `${mounted.volumeID}.reduction.json`), "{");
    await expect(fixture.storage.extend(mounted, 2 * GIB)).rejects.toThrow("is unreadable");
    expect(volumeBytes(mounted)).toBe(GIB);
  });

  it("formats nothing that was formatted before, although the node has lost its records", async () => {
    const volume = makeLvmVolume();
    const mounted = await stage(volume);
    await fixture.storage.unstage(volume, mounted.mountPath);
    execFileSync("wipefs", ["--all", mounted.device], { stdio: "ignore" });
    const { storage } = await nextAgent(join(fixture.directory, "next"));
    await expect(storage.stage(volume, 0, mounted.mountPath)).rejects.toMatchObject({ code: "SignatureFound" });
  });

  it("formats nothing that was not made for the volume", async () => {
    const volume = makeLvmVolume();
    await fixture.lvmd.lvm.make("thick", volume.volumeID, GIB, []);
    await expect(fixture.storage.stage(volume, 0, fixture.mountPathOf(volume))).rejects.toThrow(
      "was not made for this volume",
    );
  });

  it("removes what neither a record nor a tag calls its own only by what is on it, active or not, or once its wipe has begun", async () => {
    const { lvm } = fixture.lvmd;
    const volume = makeLvmVolume();
    await lvm.make("thick", volume.volumeID, GIB, []);
    await lvm.setActive(volume.volumeID, false);
    await expect(fixture.storage.remove(volume)).rejects.toMatchObject({ code: "WrongFilesystem" });
    expect(lvm.volumes()).toHaveLength(1);
    await lvm.setActive(volume.volumeID, true);
    // Another device than before, where another test has taken that meanwhile.
    const [active] = lvm.volumes();
    execFileSync("mkfs.btrfs", ["-q", "-U", volume.fsid, active?.path ?? ""]);
    await lvm.setActive(volume.volumeID, false);
    await fixture.storage.remove(volume);
    expect(lvm.volumes()).toEqual([]);
    await lvm.make("thick", volume.volumeID, GIB, [WIPE_BEGUN_TAG]);
    await fixture.storage.remove(volume);
    expect(lvm.volumes()).toEqual([]);
  });

  it("touches no volume that is tagged as another's", async () => {
    const volume = makeLvmVolume();
    await fixture.lvmd.lvm.make("thick", volume.volumeID, GIB, [`tidemark.dev/volume-uid=${randomUUID()}`]);
    const stranger = { code: "WrongFilesystem" };
    await expect(fixture.storage.stage(volume, 0, fixture.mountPathOf(volume))).rejects.toMatchObject(stranger);
    await expect(fixture.storage.remove(volume)).rejects.toMatchObject(stranger);
    expect(volumeBytes(volume)).toBe(GIB);
  });

  it("shows no filesystem as a raw device, whether its record or its tag tells of it", async () => {
    const { fsType: _none, ...volume } = makeLvmVolume();
    const raw = { ...volume, volumeMode: "Block" as const };
    const mounted = await stage({ ...volume, fsType: "btrfs" });
    await fixture.storage.unstage(mounted, mounted.mountPath);
    const wrongMode = { code: "WrongFilesystem", message: expect.stringContaining("was made with Filesystem") };
    await expect(fixture.raw.stage(raw, 0, mounted.mountPath)).rejects.toMatchObject(wrongMode);
    rmSync(fixture.recordDirectory, { recursive: true });
    await expect(fixture.raw.stage(raw, 0, mounted.mountPath)).rejects.toMatchObject(wrongMode);
  });

  it("takes the place of no volume that is gone", async () => {
    const volume = makeLvmVolume();
    await expect(fixture.storage.stage(volume, 0, fixture.mountPathOf(volume))).rejects.toMatchObject({
      code: "AlreadyFormatted",
    });
    expect(fixture.lvmd.lvm.volumes()).toEqual([]);
  });

  it.each([
    ["is not configured any more", () => fixture.lvmd.setClass("thick", undefined)],
    ["has lost its volume group", () => fixture.lvmd.setClass("thick", { problem: "the volume group is gone" })],
  ])("takes nothing for gone while its class %s", async (_why, breakClass) => {
    const volume = makeLvmVolume();
    breakClass();
    const waiting = { code: "WaitingForMember" };
    await expect(fixture.storage.sizeBytes(volume)).rejects.toMatchObject(waiting);
    await expect(fixture.storage.remove(volume)).rejects.toMatchObject(waiting);
  });

  it("measures and lets go of what is mounted while lvmd is away", async () => {
    const volume = makeLvmVolume();
    const mounted = await stage(volume);
    await fixture.lvmd.stop();
    expect(await fixture.storage.sizeBytes(volume)).toBe(GIB);
    await fixture.storage.unstage(volume, mounted.mountPath);
    await fixture.lvmd.start();
    expect(existsSync(join(fixture.recordDirectory, `${volume.volumeID}.member.json`))).toBe(true);
  });
});
