// The contract of the storage port, for each of its adapters to keep.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "@jest/globals";
import type { FreshReadings, Mounted, Mounting, Resizing, Volume } from "../../../src/agent/storage/storage.ts";
import { GIB, MIB, makeShrinkControl } from "./storage-fixture.ts";

type FilesystemStorage<V extends Volume> = Mounting<V> & Resizing<V> & FreshReadings<V>;

export interface StorageAdapter<V extends Volume> {
  readonly storage: FilesystemStorage<V>;
  makeVolume(): V;
  /** The same with a member of another name. */
  renamed(volume: V, name: string): V;
  /** Makes the member where that is not the storage's own work. */
  provide(volume: V, sizeBytes: number): Promise<void>;
  /** Sizes are whole multiples of it. */
  readonly grainBytes: number;
  mountPathOf(volume: V): string;
  cleanUp(): Promise<void>;
}

export function describeStorage<V extends Volume>(createAdapter: () => Promise<StorageAdapter<V>>): void {
  let volume: V;
  let adapter: StorageAdapter<V>;
  let storage: FilesystemStorage<V>;
  let mounted: Mounted<V>;

  beforeEach(async () => {
    adapter = await createAdapter();
    volume = adapter.makeVolume();
    storage = adapter.storage;
    await adapter.provide(volume, GIB);
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
    const { grainBytes } = adapter;
    expect(await storage.extend(mounted, GIB + 1.5 * grainBytes)).toBe(GIB + grainBytes);
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
    expect(result.message).toContain("reserve 2Gi");
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
    await adapter.provide(volume, GIB);
    const anew = await storage.stage(volume, GIB, mounted.mountPath);
    expect((await storage.freshReading(anew)).capacityBytes).toBe(GIB);
  });

  it("refuses a member whose name leads elsewhere", async () => {
    const stranger = adapter.renamed(adapter.makeVolume(), "../elsewhere");
    await expect(storage.stage(stranger, GIB, adapter.mountPathOf(stranger))).rejects.toThrow("not a plain file name");
  });
}
