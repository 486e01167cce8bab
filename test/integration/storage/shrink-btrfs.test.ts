// Shrinking real btrfs under writers that know nothing of it: nothing lost, never read-only, cancelled in time.

import { execFileSync, spawnSync } from "node:child_process";
import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import { exclusiveOperation } from "../../../src/agent/storage/btrfs/exclusive-operation.ts";
import { deviceSizeBytes, mountAt } from "../../../src/agent/storage/filesystem/devices-and-mounts.ts";
import type { MountedLoop, ShrinkResult } from "../../../src/agent/storage/storage.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import { waitFor } from "../../harness/wait-for.ts";
import {
  createStorageFixture,
  GIB,
  MIB,
  makeShrinkControl,
  makeVolume,
  remount,
  type StorageFixture,
} from "./storage-fixture.ts";
import { scatterInReserved, startWriter, verifyFiles, type Writer } from "./written-files.ts";

const ATTEMPTS_LIMIT = 20;

/** Few are enough. */
const SNAPSHOTS = 2;

describeReal("shrink of btrfs", LOOP_PARTS, () => {
  let fixture: StorageFixture;
  let mounted: MountedLoop;
  let manifest: string;
  const writers: Writer[] = [];

  beforeEach(async () => {
    fixture = createStorageFixture();
    const volume = makeVolume();
    mounted = await fixture.storage.stage(volume, 3 * GIB, fixture.mountPathOf(volume));
    manifest = join(fixture.directory, "manifest");
  });
  afterEach(async () => {
    for (const writer of writers.splice(0)) await writer.stop();
    fixture.cleanUp();
  });

  function write(settings: Parameters<typeof startWriter>[2]): Writer {
    const writer = startWriter(mounted.mountPath, manifest, settings);
    writers.push(writer);
    return writer;
  }

  /** As the engine would: what was cancelled for a writer is tried again. A shrink under a writer has to get there in the end. */
  async function shrinkUntilDone(sizeBytes: number): Promise<ShrinkResult> {
    for (let attempt = 1; ; attempt += 1) {
      const result = await fixture.storage.shrink(mounted, sizeBytes, makeShrinkControl());
      if (result.outcome !== "Cancelled" || attempt === ATTEMPTS_LIMIT) return result;
    }
  }

  /** Full chunks behind free room: no balance moves them, so a shrink to less than 2.5 GiB has a resize that takes its time. */
  function writeBehindFreeRoom(): void {
    const ballast = join(mounted.mountPath, "ballast");
    execFileSync("fallocate", ["--length", `${1536 * MIB}`, ballast]);
    scatterInReserved(mounted.mountPath, manifest, 100, 1);
    rmSync(ballast);
  }

  /** After unmount and mount: all files as written, member, device and filesystem of one size. */
  async function expectWhole(): Promise<void> {
    expect(mountAt(mounted.mountPath)?.readOnly).toBe(false);
    mounted = await remount(fixture, mounted);
    const { files, corrupt } = verifyFiles(mounted.mountPath, manifest);
    expect(files).toBeGreaterThan(0);
    expect(corrupt).toEqual([]);
    const sizeBytes = statSync(fixture.memberPathOf(mounted)).size;
    expect(deviceSizeBytes(mounted.device)).toBe(sizeBytes);
    expect((await fixture.storage.freshReading(mounted)).capacityBytes).toBe(sizeBytes);
    execFileSync("btrfs", ["scrub", "start", "-B", mounted.mountPath]);
  }

  it("moves scattered data under a 60 MB/s writer, and loses none", async () => {
    scatterInReserved(mounted.mountPath, manifest, 200, 6);
    const writer = write({ megabytesPerSecond: 60, keptFiles: 20 });
    const result = await shrinkUntilDone(1536 * MIB);
    await writer.stop();
    expect(result).toEqual({ outcome: "Succeeded", sizeBytes: 1536 * MIB });
    expect(writer.error()).toBeUndefined();
    await expectWhole();
  });

  it("moves nothing where snapshots may share it, and gives back what lies behind its last chunk", async () => {
    scatterInReserved(mounted.mountPath, manifest, 150, 3);
    const snapshot = (index: number): string => join(mounted.mountPath, `snapshot-${index}`);
    for (let index = 0; index < SNAPSHOTS; index += 1)
      execFileSync("btrfs", ["subvolume", "snapshot", mounted.mountPath, snapshot(index)], { stdio: "ignore" });
    expect(await fixture.storage.extend(mounted, 4 * GIB)).toBe(4 * GIB);
    const physicalOf = (): string =>
      execFileSync("btrfs", ["inspect-internal", "dump-tree", "-t", "chunk", mounted.device], { encoding: "utf8" });
    const before = physicalOf().match(/CHUNK_ITEM \d+/g);
    const result = await fixture.storage.shrink(mounted, 1 * GIB, makeShrinkControl());
    expect(result).toMatchObject({
      outcome: "FloorReached",
      message: expect.stringContaining(`${SNAPSHOTS} snapshots`),
    });
    expect(result.sizeBytes).toBeLessThan(4 * GIB);
    expect(result.sizeBytes).toBeGreaterThan(1 * GIB);
    execFileSync("blockdev", ["--flushbufs", mounted.device]);
    expect(physicalOf().match(/CHUNK_ITEM \d+/g)).toEqual(before);
    await expectWhole();
    for (let index = 0; index < SNAPSHOTS; index += 1)
      execFileSync("btrfs", ["subvolume", "delete", "--commit-after", snapshot(index)], { stdio: "ignore" });
    await waitFor("the snapshots to be cleaned up", () => {
      const left = execFileSync("btrfs", ["subvolume", "list", "-d", mounted.mountPath], { encoding: "utf8" });
      return left === "" ? true : undefined;
    });
    expect((await shrinkUntilDone(1536 * MIB)).sizeBytes).toBeLessThan(result.sizeBytes);
    await expectWhole();
  });

  it("grows and shrinks over and over under a writer, and loses nothing", async () => {
    const writer = write({ megabytesPerSecond: 100, keptFiles: 40 });
    for (let round = 0; round < 3; round += 1) {
      expect(await fixture.storage.extend(mounted, 4 * GIB)).toBe(4 * GIB);
      expect(await shrinkUntilDone(2 * GIB)).toEqual({ outcome: "Succeeded", sizeBytes: 2 * GIB });
    }
    await writer.stop();
    expect(writer.error()).toBeUndefined();
    await expectWhole();
  });

  it("is cancelled by a writer that would outgrow it", async () => {
    scatterInReserved(mounted.mountPath, manifest, 150, 3);
    let reserveBytes = 256 * MIB;
    const writer = write({ megabytesPerSecond: 400, keptFiles: 400 });
    await waitFor("the writer to be at work", () => fixtureHasFile(mounted, "w10") || undefined);
    const shrinking = fixture.storage.shrink(mounted, 1 * GIB, makeShrinkControl({ reserveBytes: () => reserveBytes }));
    reserveBytes = 768 * MIB;
    const result = await shrinking;
    await writer.stop();
    await fixture.storage.extend(mounted, 8 * GIB);
    expect(["Cancelled", "FloorReached"]).toContain(result.outcome);
    expect(result.sizeBytes).toBeGreaterThan(1 * GIB);
    expect(writer.error()).toBeUndefined();
    await expectWhole();
  });

  it("is cancelled in the middle of a step by its signal, and leaves nothing running", async () => {
    writeBehindFreeRoom();
    const controller = new AbortController();
    let ended = false;
    const shrinking = fixture.storage
      .shrink(mounted, 1500 * MIB, makeShrinkControl({ signal: controller.signal }))
      .finally(() => {
        ended = true;
      });
    await until("a resize to run", () => ended || exclusiveOperation(mounted.fsid) === "resize");
    expect(ended).toBe(false); // else no resize was there to cancel
    controller.abort(new Error("an extend goes first"));
    const result = await shrinking;
    expect(result).toMatchObject({ outcome: "Cancelled", message: "it was stopped: Error: an extend goes first" });
    expect(exclusiveOperation(mounted.fsid)).toBe("none");
    expect(result.sizeBytes).toBe(statSync(fixture.memberPathOf(mounted)).size);
    await expectWhole();
  });

  it("asks once more for a step that somebody else has cancelled", async () => {
    writeBehindFreeRoom();
    let ended = false;
    const result = fixture.storage.shrink(mounted, 2 * GIB, makeShrinkControl()).finally(() => {
      ended = true;
    });
    await until("a resize to be cancelled", () => ended || isResizeCancelled(mounted));
    expect(ended).toBe(false); // else no resize was there to cancel
    expect(await result).toEqual({ outcome: "Succeeded", sizeBytes: 2 * GIB });
    await expectWhole();
  });

  it("repacks emptied chunks where only their places hold the filesystem up", async () => {
    scatterInReserved(mounted.mountPath, manifest, 300, 30);
    expect(minDeviceBytes(mounted)).toBeGreaterThan(1280 * MIB);
    const result = await fixture.storage.shrink(
      mounted,
      1280 * MIB,
      makeShrinkControl({ reserveBytes: () => 64 * MIB }),
    );
    expect(result).toEqual({ outcome: "Succeeded", sizeBytes: 1280 * MIB });
    await expectWhole();
  });

  it("ends at its floor, and not as cancelled, where only the chunk that it moves takes the reserve", async () => {
    scatterInReserved(mounted.mountPath, manifest, 300, 30);
    const result = await fixture.storage.shrink(mounted, 1 * GIB, makeShrinkControl({ reserveBytes: () => 384 * MIB }));
    expect(result.outcome).toBe("FloorReached");
    expect(result.sizeBytes).toBeLessThan(2 * GIB);
    await expectWhole();
  });

  it("stops at the filesystem's own floor, with the numbers", async () => {
    execFileSync("fallocate", ["--length", `${704 * MIB}`, join(mounted.mountPath, "reserved")]);
    scatterInReserved(mounted.mountPath, manifest, 12, 1);
    const result = await fixture.storage.shrink(mounted, 512 * MIB, makeShrinkControl());
    if (result.outcome !== "FloorReached") throw new Error(`ended as ${result.outcome}`);
    expect(result.sizeBytes).toBeLessThan(3 * GIB);
    expect(result.floorBytes).toBeGreaterThan(800 * MIB);
    expect(result.message).toMatch(/minimum \d+(\.\d+)?[MG]i/);
    await expectWhole();
  });

  it("refuses to run on a filesystem that the kernel has made read-only", async () => {
    execFileSync("mount", ["-o", "remount,ro", mounted.mountPath]);
    await expect(fixture.storage.shrink(mounted, GIB, makeShrinkControl())).rejects.toMatchObject({ code: "ReadOnly" });
    await expect(fixture.storage.extend(mounted, 4 * GIB)).rejects.toMatchObject({ code: "ReadOnly" });
    expect(await fixture.storage.sizeBytes(mounted)).toBe(3 * GIB);
  });
});

/** Whether there was a resize to cancel: the command says so by failing with ECANCELED, and with ENOTCONN where there was none. */
function isResizeCancelled({ mountPath }: MountedLoop): boolean {
  const { stderr } = spawnSync("btrfs", ["filesystem", "resize", "cancel", mountPath], { encoding: "utf8" });
  return stderr.includes("Operation canceled");
}

function fixtureHasFile({ mountPath }: MountedLoop, name: string): boolean {
  return statSync(join(mountPath, name), { throwIfNoEntry: false }) !== undefined;
}

function minDeviceBytes({ mountPath }: MountedLoop): number {
  const said = execFileSync("btrfs", ["inspect-internal", "min-dev-size", mountPath], { encoding: "utf8" });
  return Number.parseInt(said, 10);
}

/** A step may be over within milliseconds. */
async function until(what: string, condition: () => boolean): Promise<void> {
  await waitFor(what, () => condition() || undefined, { intervalMs: 1 });
}
