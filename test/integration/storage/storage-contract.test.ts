// What every adapter of the storage port does, on real loop devices and on the simulated disk alike.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { createSimulatedStorage } from "../../../src/agent/storage/simulated-storage.ts";
import type { LoopVolume, MountedLoop, Storage } from "../../../src/agent/storage/storage.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { directEffects } from "../../../src/process/effects.ts";
import { createFilePort } from "../../../src/process/file-port.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import { createStorageFixture, GIB, MIB, makeShrinkControl, makeVolume } from "./storage-fixture.ts";

interface Adapter {
  readonly storage: Storage<LoopVolume>;
  readonly mountPathOf: (volume: LoopVolume) => string;
  cleanUp(): void;
}

function createSimulatedAdapter(): Adapter {
  const directory = mkdtempSync("/dev/shm/tidemark-storage-test-");
  const members = join(directory, "members");
  mkdirSync(members);
  return {
    storage: createSimulatedStorage({ directory: members, files: createFilePort(directEffects), clock: systemClock }),
    mountPathOf: (volume) => join(directory, "mounts", volume.handle),
    cleanUp: () => rmSync(directory, { recursive: true }),
  };
}

describeReal("storage on loop devices", LOOP_PARTS, () => describeStorage(() => createStorageFixture()));
describe("storage on the simulated disk", () => describeStorage(createSimulatedAdapter));

function describeStorage(createAdapter: () => Adapter): void {
  let volume: LoopVolume;
  let adapter: Adapter;
  let storage: Storage<LoopVolume>;
  let mounted: MountedLoop;

  beforeEach(async () => {
    adapter = createAdapter();
    volume = makeVolume();
    storage = adapter.storage;
    mounted = await storage.stage(volume, GIB, adapter.mountPathOf(volume));
  });
  afterEach(() => adapter.cleanUp());

  it("stages a filesystem of the size asked for, and the same one when asked again", async () => {
    expect(await storage.stage(volume, 3 * GIB, mounted.mountPath)).toEqual(mounted);
    expect(await storage.sizeBytes(volume)).toBe(GIB);
    const { capacityBytes, availableBytes } = await storage.freshReading(mounted);
    expect(capacityBytes).toBe(GIB);
    expect(availableBytes).toBeGreaterThan(GIB / 2);
    expect(availableBytes).toBeLessThan(GIB);
  });

  it("finds what is staged, and nothing once it is unstaged", async () => {
    expect(await storage.find(volume, mounted.mountPath)).toEqual(mounted);
    await storage.unstage(volume, mounted.mountPath);
    await storage.unstage(volume, mounted.mountPath);
    expect(await storage.find(volume, mounted.mountPath)).toBeUndefined();
  });

  it("keeps data and size over unstage and stage", async () => {
    writeFileSync(join(mounted.mountPath, "kept"), "water");
    await storage.extend(mounted, 2 * GIB);
    await storage.unstage(volume, mounted.mountPath);
    await storage.stage(volume, GIB, mounted.mountPath);
    expect(readFileSync(join(mounted.mountPath, "kept"), "utf8")).toBe("water");
    expect(await storage.sizeBytes(volume)).toBe(2 * GIB);
  });

  it("extends to the size asked for and returns what the filesystem then shows", async () => {
    expect(await storage.extend(mounted, 2 * GIB)).toBe(2 * GIB);
    expect((await storage.freshReading(mounted)).capacityBytes).toBe(2 * GIB);
    expect(await storage.sizeBytes(volume)).toBe(2 * GIB);
  });

  it("never makes a filesystem smaller by an extend, nor larger than asked by a fraction of a block", async () => {
    expect(await storage.extend(mounted, GIB / 2)).toBe(GIB);
    expect(await storage.extend(mounted, GIB + 5000)).toBe(GIB + 4096);
  });

  it("refuses an extend that the host has no room for, and changes nothing", async () => {
    await expect(storage.extend(mounted, 2 ** 50)).rejects.toMatchObject({ code: "DiskFull" });
    expect(await storage.sizeBytes(volume)).toBe(GIB);
    expect((await storage.freshReading(mounted)).capacityBytes).toBe(GIB);
  });

  it("shrinks in steps to the size asked for and keeps the data", async () => {
    writeFileSync(join(mounted.mountPath, "kept"), "water");
    await storage.extend(mounted, 3 * GIB);
    const steps: number[] = [];
    const onStep = (sizeBytes: number): number => steps.push(sizeBytes);
    const result = await storage.shrink(mounted, GIB, makeShrinkControl({ onStep }));
    expect(result).toEqual({ outcome: "Succeeded", sizeBytes: GIB });
    expect(steps.length).toBeGreaterThan(1);
    expect(steps).toEqual([...steps].sort((a, b) => b - a));
    expect(await storage.sizeBytes(volume)).toBe(GIB);
    expect((await storage.freshReading(mounted)).capacityBytes).toBe(GIB);
    expect(readFileSync(join(mounted.mountPath, "kept"), "utf8")).toBe("water");
  });

  it("stops a shrink where used and reserve begin, and says so with the numbers", async () => {
    await storage.extend(mounted, 3 * GIB);
    const result = await storage.shrink(mounted, 300 * MIB, makeShrinkControl({ reserveBytes: () => 2 * GIB }));
    if (result.outcome !== "FloorReached") throw new Error(`ended as ${result.outcome}`);
    const { capacityBytes, availableBytes } = await storage.freshReading(mounted);
    expect(result.floorBytes).toBeGreaterThanOrEqual(2 * GIB);
    expect(result.message).toContain("a reserve of 2Gi");
    expect(result.sizeBytes).toBe(capacityBytes);
    expect(availableBytes).toBeGreaterThanOrEqual(2 * GIB);
  });

  it("does not begin a shrink that was called off", async () => {
    await storage.extend(mounted, 2 * GIB);
    const signal = AbortSignal.abort(new Error("an extend goes first"));
    const result = await storage.shrink(mounted, GIB, makeShrinkControl({ signal }));
    expect(result).toMatchObject({ outcome: "Cancelled", sizeBytes: 2 * GIB });
    expect(await storage.sizeBytes(volume)).toBe(2 * GIB);
  });

  it("calls a shrink that had reached its size when it was stopped a success", async () => {
    await storage.extend(mounted, 2 * GIB);
    const stop = new AbortController();
    const onStep = (sizeBytes: number): void => {
      if (sizeBytes === GIB) stop.abort(new Error("an extend goes first"));
    };
    const result = await storage.shrink(mounted, GIB, makeShrinkControl({ signal: stop.signal, onStep }));
    expect(stop.signal.aborted).toBe(true);
    expect(result).toEqual({ outcome: "Succeeded", sizeBytes: GIB });
  });

  it("lets an extend stop a shrink and go first", async () => {
    await storage.extend(mounted, 6 * GIB);
    const shrinking = storage.shrink(mounted, GIB, makeShrinkControl());
    const extended = await storage.extend(mounted, 7 * GIB);
    expect((await shrinking).outcome).toBe("Cancelled");
    expect(extended).toBe(7 * GIB);
    expect((await storage.freshReading(mounted)).capacityBytes).toBe(7 * GIB);
  });

  it("removes a member only when it is not staged, and then without a trace", async () => {
    await expect(storage.remove(volume)).rejects.toMatchObject({ code: "DeviceBusy" });
    await storage.unstage(volume, mounted.mountPath);
    await storage.remove(volume);
    await storage.remove(volume);
    expect(await storage.sizeBytes(volume)).toBeUndefined();
    const anew = await storage.stage(volume, GIB, mounted.mountPath);
    expect((await storage.freshReading(anew)).capacityBytes).toBe(GIB);
  });

  it("refuses a member file name that leads elsewhere", async () => {
    const stranger = { ...makeVolume(), memberFile: "../elsewhere" };
    await expect(storage.stage(stranger, GIB, adapter.mountPathOf(stranger))).rejects.toThrow("no plain file name");
  });
}
