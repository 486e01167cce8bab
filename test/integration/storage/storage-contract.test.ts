// What every adapter of the storage port does: on real loop devices, on volumes of the fake lvmd, and on the simulated disk alike.

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe } from "@jest/globals";
import { createSimulatedStorage } from "../../../src/agent/storage/simulated/simulated-storage.ts";
import type { LoopVolume, LvmVolume } from "../../../src/agent/storage/storage.ts";
import { systemClock } from "../../../src/platform/process/clock.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../../src/platform/process/effects/file-port.ts";
import { GRAIN_BYTES } from "../../builders/device-class.ts";
import { describeReal, LOOP_PARTS } from "../../harness/real-parts.ts";
import { describeStorage, type StorageAdapter } from "./describe-storage.ts";
import { createLvmFixture, makeLvmVolume } from "./lvm-fixture.ts";
import { createStorageFixture, makeVolume } from "./storage-fixture.ts";

async function createSimulatedAdapter(): Promise<StorageAdapter<LoopVolume>> {
  const directory = mkdtempSync("/dev/shm/tidemark-storage-test-");
  const members = join(directory, "members");
  mkdirSync(members);
  return {
    storage: createSimulatedStorage({ directory: members, files: createFilePort(directEffects), clock: systemClock }),
    makeVolume,
    renamed: (volume, memberFile) => ({ ...volume, memberFile }),
    provide: async () => undefined,
    grainBytes: 4096,
    mountPathOf: (volume) => join(directory, "mounts", volume.handle),
    cleanUp: async () => rmSync(directory, { recursive: true }),
  };
}

async function createLoopAdapter(): Promise<StorageAdapter<LoopVolume>> {
  const fixture = createStorageFixture();
  return {
    ...fixture,
    makeVolume,
    renamed: (volume, memberFile) => ({ ...volume, memberFile }),
    provide: async () => undefined,
    grainBytes: 4096,
    cleanUp: async () => fixture.cleanUp(),
  };
}

async function createLvmAdapter(): Promise<StorageAdapter<LvmVolume>> {
  const fixture = await createLvmFixture();
  return {
    ...fixture,
    makeVolume: makeLvmVolume,
    renamed: (volume, volumeID) => ({ ...volume, volumeID }),
    grainBytes: GRAIN_BYTES,
  };
}

describeReal("storage on loop devices", LOOP_PARTS, () => describeStorage(createLoopAdapter));
describeReal("storage on logical volumes of the fake lvmd", LOOP_PARTS, () => describeStorage(createLvmAdapter));
describe("storage on the simulated disk", () => describeStorage(createSimulatedAdapter));
