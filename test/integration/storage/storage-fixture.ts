// A loop storage over a directory of its own on /dev/shm, with everything that a test attached or mounted taken down at the
// end, also when the test failed half-way.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { loopDevicesUnder, mountsUnder } from "../../../demo/show/run/mount-table.ts";
import type { MountReader } from "../../../src/agent/storage/filesystem/mount-reader.ts";
import { createLoopStorage, type LoopStorage } from "../../../src/agent/storage/loop/loop-storage.ts";
import type { LoopVolume, MountedLoop, ShrinkControl } from "../../../src/agent/storage/storage.ts";
import { fsidOf, volumeHandleOf } from "../../../src/contracts/identity.ts";
import type { FsType } from "../../../src/contracts/kinds/filesystem-layout.ts";
import { systemClock } from "../../../src/platform/process/clock.ts";
import { createCommandPort } from "../../../src/platform/process/effects/command-port.ts";
import { directEffects, type Effects } from "../../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../../src/platform/process/effects/file-port.ts";

import { mountReaderUnderTest } from "../../harness/mount-reader-under-test.ts";

export const MIB = 2 ** 20;
export const GIB = 2 ** 30;

export interface StorageFixture {
  readonly directory: string;
  readonly memberDirectory: string;
  readonly storage: LoopStorage;
  readonly mountPathOf: (volume: LoopVolume) => string;
  readonly memberPathOf: (volume: LoopVolume) => string;
  readonly recordPathOf: (volume: LoopVolume) => string;
  cleanUp(): void;
}

/** `directory` gives the fixture of another process; its owner cleans up. */
export function createStorageFixture(
  effects: Effects = directEffects,
  directory = makeDirectory(),
  reserveBytes?: (diskBytes: number) => number,
  mounts: MountReader = mountReaderUnderTest(),
): StorageFixture {
  const memberDirectory = join(directory, "members");
  const recordDirectory = join(directory, "records");
  mkdirSync(memberDirectory, { recursive: true });
  return {
    directory,
    memberDirectory,
    storage: createLoopStorage({
      memberDirectory,
      recordDirectory,
      ...(reserveBytes && { reserveBytes }),
      mounts,
      commands: createCommandPort(effects),
      files: createFilePort(effects),
      clock: systemClock,
      log: pino({ level: process.env.LOG_LEVEL ?? "silent" }),
    }),
    mountPathOf: (volume) => join(directory, "mounts", volume.handle),
    memberPathOf: (volume) => join(memberDirectory, volume.memberFile),
    recordPathOf: (volume) => join(recordDirectory, `${volume.memberFile}.member.json`),
    cleanUp: () => cleanUp(directory),
  };
}

export function makeVolume(fsType: FsType = "btrfs", volumeUID: string = randomUUID()): LoopVolume {
  const handle = volumeHandleOf(volumeUID);
  return { backend: "loop", handle, volumeUID, fsid: fsidOf(volumeUID), fsType, memberFile: `${handle}-0` };
}

export function makeShrinkControl(overrides: Partial<ShrinkControl> = {}): ShrinkControl {
  return {
    reserveBytes: () => 256 * MIB,
    signal: new AbortController().signal,
    onStep: () => undefined,
    ...overrides,
  };
}

/** Unmounts, detaches, and mounts again on a cold cache: what is read now comes from the member. */
export async function remount({ storage }: StorageFixture, volume: MountedLoop): Promise<MountedLoop> {
  await storage.unstage(volume, volume.mountPath);
  return storage.stage(volume, GIB, volume.mountPath);
}

function makeDirectory(): string {
  return mkdtempSync("/dev/shm/tidemark-storage-test-");
}

function cleanUp(directory: string): void {
  takeDown(directory, join(directory, "members"));
}

/** Unmounts what is mounted under the directory, detaches the loop devices of `members`' files, and removes all. */
export function takeDown(directory: string, members: string): void {
  for (const path of mountsUnder(join(directory, "mounts"))) unmount(path);
  for (const device of loopDevicesUnder(members)) execFileSync("losetup", ["--detach", device]);
  for (const path of mountsUnder(directory)) unmount(path);
  rmSync(directory, { recursive: true, force: true });
}

/** A command whose work is done may still have the mount open: an extend returns as soon as statfs shows it. */
function unmount(target: string, attemptsLeft = 100): void {
  try {
    execFileSync("umount", [target], { stdio: attemptsLeft > 0 ? "ignore" : "inherit" });
  } catch (error) {
    if (attemptsLeft === 0) throw error;
    execFileSync("sleep", ["0.05"]);
    unmount(target, attemptsLeft - 1);
  }
}

export function devicesOf(file: string): string[] {
  const listed = execFileSync("losetup", ["--noheadings", "--output", "NAME", "--associated", file], {
    encoding: "utf8",
  });
  return listed.split("\n").filter(Boolean);
}
