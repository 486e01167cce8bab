// A storage on logical volumes over the fake lvmd, in a directory of its own on /dev/shm; what a test mounted or attached is taken down at
// the end.
import { randomUUID } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { type NodeLvm, openNodeLvm } from "../../../src/agent/lvmd-client/node-lvm.ts";
import { createLvmStorage, type LvmFilesystems } from "../../../src/agent/storage/lvm/lvm-storage.ts";
import type { RawStorage } from "../../../src/agent/storage/lvm/raw-storage.ts";
import type { LvmVolume, RawVolume } from "../../../src/agent/storage/storage.ts";
import { fsidOf, volumeHandleOf } from "../../../src/contracts/identity.ts";
import type { FsType } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { systemClock } from "../../../src/platform/process/clock.ts";
import { createCommandPort } from "../../../src/platform/process/effects/command-port.ts";
import { directEffects, type Effects } from "../../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../../src/platform/process/effects/file-port.ts";
import { type FakeLvmd, startFakeLvmd } from "../../fakes/fake-lvmd.ts";
import { mountReaderUnderTest } from "../../harness/mount-reader-under-test.ts";
import { eventually } from "../../harness/wait-for.ts";
import { takeDown } from "./storage-fixture.ts";

export interface LvmStorageUnderTest {
  readonly lvm: NodeLvm;
  readonly storage: LvmFilesystems;
  readonly raw: RawStorage;
  readonly recordDirectory: string;
  readonly mountPathOf: (volume: LvmVolume | RawVolume) => string;
}

export interface LvmFixture extends LvmStorageUnderTest {
  readonly directory: string;
  readonly lvmd: FakeLvmd;
  /** As the agent makes it for a LogicalVolume. */
  provide(volume: LvmVolume | RawVolume, sizeBytes: number): Promise<void>;
  cleanUp(): Promise<void>;
}

export async function createLvmFixture(): Promise<LvmFixture> {
  const directory = mkdtempSync("/dev/shm/tidemark-storage-test-");
  const lvmd = await startFakeLvmd(directory);
  const underTest = await openLvmStorage(directory, lvmd.socketPath, directEffects);
  return {
    ...underTest,
    directory,
    lvmd,
    provide: async ({ deviceClass, volumeID, volumeUID }, sizeBytes) => {
      await lvmd.lvm.make(deviceClass, volumeID, sizeBytes, [`tidemark.dev/volume-uid=${volumeUID}`]);
    },
    cleanUp: async () => {
      underTest.lvm.stop();
      await lvmd.stop();
      takeDown(directory, join(directory, "volumes"));
    },
  };
}

/** An agent's storage over a lvmd that serves on this socket; what it records is in the directory. */
export async function openLvmStorage(
  directory: string,
  socketPath: string,
  effects: Effects,
): Promise<LvmStorageUnderTest> {
  const log = pino({ level: process.env["LOG_LEVEL"] ?? "silent" });
  const lvm = openNodeLvm(socketPath, effects, log);
  await eventually("lvmd has told its classes", () => lvm.classes.list() !== undefined);
  const recordDirectory = join(directory, "records");
  const { filesystems, raw } = createLvmStorage({
    lvmd: lvm.calls,
    classes: lvm.classes,
    socketDirectory: lvm.socketDirectory,
    recordDirectory,
    mounts: mountReaderUnderTest(),
    commands: createCommandPort(effects),
    files: createFilePort(effects),
    clock: systemClock,
    log,
  });
  return {
    lvm,
    recordDirectory,
    storage: filesystems,
    raw,
    mountPathOf: ({ handle }) => join(directory, "mounts", handle),
  };
}

export function makeLvmVolume(fsType: FsType = "btrfs", deviceClass = "thick"): LvmVolume {
  const volumeUID = randomUUID();
  const identity = { handle: volumeHandleOf(volumeUID), volumeUID, fsid: fsidOf(volumeUID), fsType };
  return { backend: "lvm", ...identity, deviceClass, volumeID: randomUUID() };
}
