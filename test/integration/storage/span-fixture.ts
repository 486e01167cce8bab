// A span storage over a directory of its own, in memory unless its prefix says otherwise, with a real member driver whose volumes
// are loop devices; everything that a test attached or mounted is taken down at the end, also when the test failed half-way.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { createMemberDevices } from "../../../src/agent/member-drivers/member-devices.ts";
import { createMemberSecrets, createRegisteredDrivers } from "../../../src/agent/member-drivers/node-calls.ts";
import type { SpanMember } from "../../../src/agent/member-drivers/span-member.ts";
import type { MountReader } from "../../../src/agent/storage/filesystem/mount-reader.ts";
import { createSpanStorage, type SpanStorage } from "../../../src/agent/storage/span/span-storage.ts";
import type { SpanVolume } from "../../../src/agent/storage/storage.ts";
import { fsidOf, volumeHandleOf } from "../../../src/contracts/identity.ts";
import { systemClock } from "../../../src/platform/process/clock.ts";
import { createCommandPort } from "../../../src/platform/process/effects/command-port.ts";
import { directEffects, type Effects } from "../../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../../src/platform/process/effects/file-port.ts";
import { type LoopMemberDriver, startLoopMemberDriver } from "../../harness/loop-member-driver.ts";
import { mountReaderUnderTest } from "../../harness/mount-reader-under-test.ts";
import { takeDown } from "./storage-fixture.ts";

export const DRIVER = "members.example.com";
/** Type and number of a node that is no device: no loop device has this number. */
export const NO_DISK = ["b", "7", "1048000"] as const;

export interface SpanFixture {
  readonly directory: string;
  readonly driver: LoopMemberDriver;
  readonly storage: SpanStorage;
  readonly deviceDirectory: string;
  readonly recordDirectory: string;
  readonly mountPathOf: (volume: SpanVolume) => string;
  /** Its loop device, while its driver has one for it. */
  readonly deviceOf: (member: SpanMember) => string | undefined;
  /** Where its driver keeps its volume. */
  readonly fileOf: (member: SpanMember) => string;
  cleanUp(): Promise<void>;
}

export async function createSpanFixture(
  prefix = "/dev/shm/tidemark-span-test-",
  mounts: MountReader = mountReaderUnderTest(),
  effects: Effects = directEffects,
): Promise<SpanFixture> {
  const directory = mkdtempSync(prefix);
  const registrationDirectory = join(directory, "plugins_registry");
  const driver = await startLoopMemberDriver(DRIVER, join(directory, "driver"), registrationDirectory);
  return {
    directory,
    driver,
    storage: spanStorageIn(directory, effects, "this", mounts),
    deviceDirectory: join(directory, "devices"),
    recordDirectory: join(directory, "records"),
    mountPathOf: (volume) => spanMountPath(directory, volume),
    deviceOf: ({ volume }) => driver.deviceOf(volume?.volumeHandle ?? ""),
    fileOf: ({ volume }) => driver.fileOf(volume?.volumeHandle ?? ""),
    cleanUp: async () => {
      await driver.stop();
      takeDown(directory, join(directory, "driver/volumes"));
    },
  };
}

export function spanMountPath(directory: string, { handle }: SpanVolume): string {
  return join(directory, "mounts", handle);
}

/** Of another process, too: what it knows is in the directory. */
export function spanStorageIn(
  directory: string,
  effects: Effects,
  bootID = "this",
  mounts: MountReader = mountReaderUnderTest(),
): SpanStorage {
  const files = createFilePort(effects);
  const devices = createMemberDevices({
    directory: join(directory, "devices"),
    drivers: createRegisteredDrivers(join(directory, "plugins_registry")),
    secrets: createMemberSecrets({ get: async () => undefined }),
    bootID,
    effects,
    files,
  });
  return createSpanStorage({
    recordDirectory: join(directory, "records"),
    devices,
    mounts,
    commands: createCommandPort(effects),
    files,
    clock: systemClock,
    log: pino({ level: process.env.LOG_LEVEL ?? "silent" }),
  });
}

export function makeSpan(members: readonly SpanMember[], volumeUID: string = randomUUID()): SpanVolume {
  const handle = volumeHandleOf(volumeUID);
  const identity = { handle, volumeUID, fsid: fsidOf(volumeUID), fsType: "btrfs" } as const;
  return { backend: "span", ...identity, members, formatted: false, epoch: 1 };
}

/** A claim of this size: provisioned, bound and attached to this node. */
export function makeMember({ driver }: SpanFixture, name: string, sizeBytes: number): SpanMember {
  const volumeHandle = `${name}-${randomUUID()}`;
  driver.createVolume(volumeHandle, sizeBytes);
  return {
    name,
    claim: `claim-${name}`,
    wanted: "Present",
    wasInside: false,
    sizeBytes,
    capacityBytes: sizeBytes,
    volume: { driver: DRIVER, volumeHandle, volumeAttributes: { pool: "slow" } },
    attachment: { context: { attached: "yes" } },
  };
}

export function withMembers<V extends SpanVolume>(volume: V, members: readonly SpanMember[]): V {
  return { ...volume, members };
}

export function leaving(member: SpanMember): SpanMember {
  return { ...member, wanted: "Removed" };
}

/** As they are on the volume's file. */
export function bytesOf(file: string, offsetBytes: number, lengthBytes: number): Buffer {
  const block = lengthBytes;
  return execFileSync("dd", [`if=${file}`, `bs=${block}`, `skip=${offsetBytes / block}`, "count=1", "status=none"]);
}

export function restore(file: string, bytes: Buffer, offsetBytes: number): void {
  const args = [
    `of=${file}`,
    `bs=${bytes.length}`,
    `seek=${offsetBytes / bytes.length}`,
    "conv=notrunc",
    "status=none",
  ];
  execFileSync("dd", args, { input: bytes });
}

/**
 * Makes a loop device that of another file. A suite that runs at the same time may be given its number in the moment in which it is free: then
 * this waits until that suite has let go of it, and fails after a minute.
 */
export function attachInstead(device: string, file: string): void {
  const again = `for n in $(seq 600); do losetup "$0" "$1" 2>/dev/null && exit; sleep 0.1; done; losetup "$0" "$1"`;
  execFileSync("sh", ["-c", `losetup --detach "$0" && { ${again}; }`, device, file]);
}
