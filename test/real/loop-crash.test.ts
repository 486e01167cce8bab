// The process ended by SIGKILL around its side effects, on real btrfs: the next process finishes or undoes, nothing is lost.

import { execFileSync, spawn, spawnSync } from "node:child_process";
import { statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "@jest/globals";
import { exclusiveOperation } from "../../src/agent/storage/btrfs/exclusive-operation.ts";
import { deviceSizeBytes } from "../../src/agent/storage/filesystem/devices-and-mounts.ts";
import type { LoopVolume, MountedLoop } from "../../src/agent/storage/storage.ts";
import { deathRecord } from "../harness/death-notes.ts";
import { describeReal, LOOP_PARTS } from "../harness/real-parts.ts";
import { eventually } from "../harness/wait-for.ts";
import { type BundledOperation, bundleOperation } from "../integration/storage/bundled-operation.ts";
import {
  createStorageFixture,
  GIB,
  MIB,
  makeShrinkControl,
  makeVolume,
  remount,
  type StorageFixture,
} from "../integration/storage/storage-fixture.ts";
import { scatterFiles, verifyFiles } from "../integration/storage/written-files.ts";

const OPERATION_LIMIT_MS = 120_000;
const ATTEMPTS_LIMIT = 10;
const OPERATION = new URL("../integration/storage/run-storage-operation.ts", import.meta.url);

describeReal("after kill -9", LOOP_PARTS, () => {
  const deaths = deathRecord("loop-crash");
  let bundled: BundledOperation;
  let fixture: StorageFixture;
  let volume: LoopVolume;
  let manifest: string;

  // Bundled once: each case starts it as a process of its own.
  beforeAll(() => {
    bundled = bundleOperation(OPERATION);
  });
  afterAll(() => {
    deaths.note();
    bundled.remove();
  });

  beforeEach(() => {
    fixture = createStorageFixture();
    volume = makeVolume();
    manifest = join(fixture.directory, "manifest");
  });
  afterEach(() => fixture.cleanUp());

  /** Runs one operation in a process that the fault ends. */
  function runUntil(fault: string, operation: string, sizeBytes: number): void {
    const args = [fixture.directory, JSON.stringify(volume), operation, String(sizeBytes), fault];
    const { signal, stderr } = spawnSync(process.execPath, [bundled.program, ...args], {
      encoding: "utf8",
      timeout: OPERATION_LIMIT_MS,
    });
    if (signal !== "SIGKILL") throw new Error(`${operation} was not ended at ${fault}: ${stderr}`);
    deaths.killedAt(fault);
  }

  /** False where the shrink was over before it was seen in the kernel. */
  async function killInMidStep(fsid: string, sizeBytes: number): Promise<boolean> {
    const args = [fixture.directory, JSON.stringify(volume), "shrink", String(sizeBytes)];
    const child = spawn(process.execPath, [bundled.program, ...args]);
    const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    const isSeen = (): boolean => child.exitCode !== null || exclusiveOperation(fsid) !== "none";
    await eventually("the shrink in the kernel", isSeen, { intervalMs: 1 });
    child.kill("SIGKILL");
    await ended;
    return child.signalCode === "SIGKILL";
  }

  async function stageWithData(sizeBytes: number): Promise<MountedLoop> {
    const mounted = await fixture.storage.stage(volume, sizeBytes, fixture.mountPathOf(volume));
    scatterFiles(mounted.mountPath, manifest, 40, 4);
    return mounted;
  }

  async function recoverAfterRestart(): Promise<{ mounted: MountedLoop; sizeBytes: number }> {
    const mounted = await fixture.storage.find(volume, fixture.mountPathOf(volume));
    if (mounted === undefined) throw new Error("it is no longer mounted");
    return { mounted, sizeBytes: await fixture.storage.recover(mounted) };
  }

  async function expectWhole(mounted: MountedLoop, sizeBytes: number): Promise<void> {
    const again = await remount(fixture, mounted);
    const { files, corrupt } = verifyFiles(again.mountPath, manifest);
    expect({ files, corrupt }).toEqual({ files: 10, corrupt: [] });
    expect(statSync(fixture.memberPathOf(volume)).size).toBe(sizeBytes);
    expect(deviceSizeBytes(again.device)).toBe(sizeBytes);
    expect((await fixture.storage.freshReading(again)).capacityBytes).toBe(sizeBytes);
  }

  it.each([
    ["extend/grow-file/before", GIB],
    ["extend/grow-file/after", 2 * GIB],
    ["extend/refresh-loop/after", 2 * GIB],
    ["extend/resize-filesystem/after", 2 * GIB],
  ])("at %s, recover makes member and filesystem agree", async (fault, expectedBytes) => {
    await stageWithData(GIB);
    runUntil(fault, "extend", 2 * GIB);
    const { mounted, sizeBytes } = await recoverAfterRestart();
    expect(sizeBytes).toBe(expectedBytes);
    expect(await fixture.storage.extend(mounted, 2 * GIB)).toBe(2 * GIB);
    await expectWhole(mounted, 2 * GIB);
  });

  it.each(["extend/resize-xfs/before", "extend/resize-xfs/after"])(
    "at %s, the extend is taken up again",
    async (fault) => {
      volume = makeVolume("xfs");
      await stageWithData(GIB);
      runUntil(fault, "extend", 2 * GIB);
      const { mounted } = await recoverAfterRestart();
      await fixture.storage.extend(mounted, 2 * GIB);
      const again = await remount(fixture, mounted);
      expect(verifyFiles(again.mountPath, manifest)).toEqual({ files: 10, corrupt: [] });
      expect(statSync(fixture.memberPathOf(volume)).size).toBe(2 * GIB);
      expect((await fixture.storage.freshReading(again)).capacityBytes).toBeGreaterThan(1.9 * GIB);
    },
  );

  it.each([
    "shrink/resize-filesystem/before",
    "shrink/resize-filesystem/after",
    "shrink/truncate-file/before",
    "shrink/truncate-file/after#2",
    "shrink/refresh-loop/after",
  ])("at %s, the shrink is taken up again", async (fault) => {
    await stageWithData(3 * GIB);
    runUntil(fault, "shrink", GIB + 200 * MIB);
    const { mounted } = await recoverAfterRestart();
    const result = await fixture.storage.shrink(mounted, GIB + 200 * MIB, makeShrinkControl());
    expect(result).toEqual({ outcome: "Succeeded", sizeBytes: GIB + 200 * MIB });
    await expectWhole(mounted, GIB + 200 * MIB);
  });

  it("while the kernel goes on with a dead process' step, recover stops it first", async () => {
    const { fsid, mountPath } = await fixture.storage.stage(volume, 3 * GIB, fixture.mountPathOf(volume));
    let killed = false;
    for (let attempt = 1; !killed && attempt <= ATTEMPTS_LIMIT; attempt += 1) {
      await fixture.storage.extend((await recoverAfterRestart()).mounted, 3 * GIB);
      scatterFiles(mountPath, manifest, 150, 15);
      killed = await killInMidStep(fsid, GIB + 200 * MIB);
    }
    const { mounted } = await recoverAfterRestart();
    expect(killed).toBe(true);
    await eventually("nothing runs on it any more", () => exclusiveOperation(fsid) === "none");
    const result = await fixture.storage.shrink(mounted, GIB + 200 * MIB, makeShrinkControl());
    expect(result).toEqual({ outcome: "Succeeded", sizeBytes: GIB + 200 * MIB });
    await expectWhole(mounted, GIB + 200 * MIB);
  });

  it("in mid-shrink without a restart of the agent, the member still mounts whole", async () => {
    await stageWithData(3 * GIB);
    runUntil("shrink/truncate-file/after", "shrink", GIB + 200 * MIB);
    const sizeBytes = statSync(fixture.memberPathOf(volume)).size;
    const mounted = await fixture.storage.find(volume, fixture.mountPathOf(volume));
    if (mounted === undefined) throw new Error("it is no longer mounted");
    await expectWhole(mounted, sizeBytes);
  });

  it.each([
    "stage/create-member/after",
    "stage/size-member/after",
    "stage/attach/after",
    "stage/record-formatting/after",
    "stage/format/after",
    "stage/record-formatted/after",
    "stage/record-mounted/after",
    "stage/mount/after",
  ])("at %s, the next stage ends with one filesystem on one device", async (fault) => {
    runUntil(fault, "stage", GIB);
    const mounted = await stageWithData(GIB);
    await expectWhole(mounted, GIB);
  });

  it.each(["stage/refresh-loop/before", "stage/refresh-loop/after"])(
    "at %s, the next stage ends with a device of the member's size",
    async (fault) => {
      const { mountPath } = await stageWithData(GIB);
      runUntil("extend/grow-file/after", "extend", 2 * GIB);
      execFileSync("umount", [mountPath]);
      runUntil(fault, "stage", GIB);
      const mounted = await fixture.storage.stage(volume, GIB, mountPath);
      expect(await fixture.storage.recover(mounted)).toBe(2 * GIB);
      await expectWhole(mounted, 2 * GIB);
    },
  );

  it.each(["unstage/unmount/after", "unstage/detach/before"])(
    "at %s, the next unstage lets go of all",
    async (fault) => {
      await stageWithData(GIB);
      runUntil(fault, "unstage", GIB);
      await fixture.storage.unstage(volume, fixture.mountPathOf(volume));
      expect(await fixture.storage.find(volume, fixture.mountPathOf(volume))).toBeUndefined();
      const mounted = await fixture.storage.stage(volume, GIB, fixture.mountPathOf(volume));
      await expectWhole(mounted, GIB);
    },
  );
});
