// Which backend a volume goes to, and what is answered for a backend that lacks something.

import { mkdtempSync, rmSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { storageByBackend } from "../../../src/agent/choose-storage.ts";
import type { LoopStorage } from "../../../src/agent/storage/loop/loop-storage.ts";
import {
  createSimulatedStorage,
  type SimulatedStorage,
} from "../../../src/agent/storage/simulated/simulated-storage.ts";
import type { LoopVolume, Mounted } from "../../../src/agent/storage/storage.ts";
import { StorageError } from "../../../src/agent/storage/storage-error.ts";
import { systemClock } from "../../../src/platform/process/clock.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../../src/platform/process/effects/file-port.ts";
import { doubleOf } from "../../fakes/double-of.ts";
import { makeShrinkControl } from "../../integration/storage/storage-fixture.ts";

const NO_OTHERS = { lvm: undefined, span: undefined };
const volume = { backend: "loop", handle: "pvc-a" } as Mounted<LoopVolume>;

it("a volume's own storage gets everything that an extend and a recovery were called with", async () => {
  const told: string[] = [];
  const signals: unknown[] = [];
  const loop = doubleOf<LoopStorage>("LoopStorage", {
    extend: async (_volume, sizeBytes, signal, tell) => {
      signals.push(signal);
      tell?.("a balance was cancelled for it");
      return sizeBytes;
    },
    recover: async (_volume, signal) => {
      signals.push(signal);
      return 1;
    },
  });
  const storage = storageByBackend(loop, NO_OTHERS);
  const { signal } = new AbortController();
  await storage.extend(volume, 2, signal, (message) => told.push(message));
  await storage.recover(volume, signal);
  expect(told).toEqual(["a balance was cancelled for it"]);
  expect(signals).toEqual([signal, signal]);
});

describe("what a backend does not have", () => {
  let directory: string;
  let simulated: SimulatedStorage;

  beforeEach(() => {
    directory = mkdtempSync("/dev/shm/tidemark-by-backend-");
    simulated = createSimulatedStorage({ directory, files: createFilePort(directEffects), clock: systemClock });
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  it("members: there is no list of them, nothing to release or prepare, and data moves", async () => {
    const storage = storageByBackend(simulated, NO_OTHERS);
    expect(await storage.members(volume)).toEqual([]);
    expect(await storage.immovable(volume)).toBeUndefined();
    for (const done of [storage.releaseMembers(volume), storage.prepareSpares(volume), storage.giveBack(volume)])
      expect(await done).toBeUndefined();
  });

  it("members: one member is still checked for its length", async () => {
    const assertWhole = (): void => {
      throw new StorageError("MembersMissing", "the member is cut");
    };
    const storage = storageByBackend(loopOf(simulated, assertWhole), NO_OTHERS);
    await expect(storage.members(volume)).rejects.toMatchObject({ code: "MembersMissing" });
  });

  it("trimming: 0 bytes; and undefined of one that gave way stays undefined", async () => {
    expect(await storageByBackend(simulated, NO_OTHERS).trim(volume)).toBe(0);
    const gaveWay = { ...loopOf(simulated), trim: async () => undefined };
    expect(await storageByBackend(gaveWay, NO_OTHERS).trim(volume)).toBeUndefined();
  });

  it("unmounted shrinks: there are none, and none to be finished", async () => {
    const storage = storageByBackend(simulated, NO_OTHERS);
    expect(storage.shrinksUnmounted(volume)).toBe(false);
    await storage.finishUnmounted(volume);
    await expect(storage.shrinkUnmounted(volume, 1, makeShrinkControl())).rejects.toMatchObject({
      code: "CommandFailed",
      said: "pvc-a is never made smaller while it is unmounted",
    });
  });

  it("free bytes: those of a device class are unknown without LVM", async () => {
    const storage = storageByBackend(simulated, NO_OTHERS);
    expect(await storage.freeBytes()).toBeGreaterThan(0);
    expect(await storage.freeBytes("fast")).toBeUndefined();
  });
});

function loopOf(simulated: SimulatedStorage, assertWhole: () => void = () => undefined): LoopStorage {
  return { ...simulated, trim: async () => 0, assertWhole };
}
