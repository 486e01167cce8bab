// A span storage over a directory of its own, in memory unless its prefix says otherwise, with a real member driver whose volumes
// are loop devices; everything that a test attached or mounted is taken down at the end, also when the test failed half-way.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { createMemberDevices } from "../../../src/agent/member-drivers/member-devices.ts";
import { createMemberSecrets } from "../../../src/agent/member-drivers/member-secrets.ts";
import { createRegisteredDrivers } from "../../../src/agent/member-drivers/registered-drivers.ts";
import type { SpanMember } from "../../../src/agent/member-drivers/span-member.ts";
import { createSpanStorage } from "../../../src/agent/storage/span/span-storage.ts";
import type { SpanVolume, Storage } from "../../../src/agent/storage/storage.ts";
import { fsidOf, volumeHandleOf } from "../../../src/api/identity.ts";
import { systemClock } from "../../../src/process/clock.ts";
import { createCommandPort } from "../../../src/process/command-port.ts";
import { directEffects, type Effects } from "../../../src/process/effects.ts";
import { createFilePort } from "../../../src/process/file-port.ts";
import { type LoopMemberDriver, startLoopMemberDriver } from "../../harness/loop-member-driver.ts";
import { takeDown } from "./storage-fixture.ts";

export const DRIVER = "members.example.com";

export interface SpanFixture {
  readonly directory: string;
  readonly driver: LoopMemberDriver;
  readonly storage: Storage<SpanVolume>;
  readonly deviceDirectory: string;
  readonly recordDirectory: string;
  readonly mountPathOf: (volume: SpanVolume) => string;
  /** Its loop device, while its driver has one for it. */
  readonly deviceOf: (member: SpanMember) => string | undefined;
  /** Where its driver keeps its volume. */
  readonly fileOf: (member: SpanMember) => string;
  cleanUp(): Promise<void>;
}

export async function createSpanFixture(prefix = "/dev/shm/tidemark-span-test-"): Promise<SpanFixture> {
  const directory = mkdtempSync(prefix);
  const registrationDirectory = join(directory, "plugins_registry");
  const driver = await startLoopMemberDriver(DRIVER, join(directory, "driver"), registrationDirectory);
  return {
    directory,
    driver,
    storage: spanStorageIn(directory, directEffects),
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
export function spanStorageIn(directory: string, effects: Effects): Storage<SpanVolume> {
  const files = createFilePort(effects);
  const devices = createMemberDevices({
    directory: join(directory, "devices"),
    drivers: createRegisteredDrivers(join(directory, "plugins_registry")),
    secrets: createMemberSecrets({ get: async () => undefined }),
    effects,
    files,
  });
  return createSpanStorage({
    recordDirectory: join(directory, "records"),
    devices,
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
