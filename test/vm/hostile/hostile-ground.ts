// What a hostile user has a filesystem on, for each backend: one of 1.5 GiB that grows to 2 GiB and is then asked to be smaller.
import { execFileSync } from "node:child_process";
import type { SpanMember } from "../../../src/agent/member-drivers/span-member.ts";
import type {
  LoopVolume,
  LvmVolume,
  Mounted,
  MountedSpan,
  Mounting,
  Resizing,
  ShrinkResult,
} from "../../../src/agent/storage/storage.ts";
import type { StorageError } from "../../../src/agent/storage/storage-error.ts";
import { pause } from "../../../src/platform/process/async/pause.ts";
import {
  createSpanFixture,
  leaving,
  makeMember,
  makeSpan,
  withMembers,
} from "../../integration/storage/span-fixture.ts";
import {
  createStorageFixture,
  GIB,
  MIB,
  makeShrinkControl,
  makeVolume,
} from "../../integration/storage/storage-fixture.ts";

export interface HostileGround {
  readonly directory: string;
  /** Where it is mounted. */
  begin(): Promise<string>;
  /** Bytes. */
  grow(): Promise<number>;
  shrink(): Promise<ShrinkResult>;
  /** On a cold cache: what is read then comes from the device. */
  remount(): Promise<void>;
  /** Unmounts it, and throws where `btrfs check` finds an error. */
  endChecked(): Promise<void>;
  cleanUp(): Promise<void>;
}

export const INITIAL_BYTES = 1536 * MIB;

export async function loopGround(): Promise<HostileGround> {
  const fixture = createStorageFixture();
  return wholeGround<LoopVolume>(makeVolume(), {
    ...fixture,
    deviceOf: fixture.memberPathOf,
    cleanUp: async () => fixture.cleanUp(),
  });
}

interface WholeFixture<V extends LoopVolume | LvmVolume> {
  readonly directory: string;
  readonly storage: Mounting<V> & Resizing<V>;
  readonly mountPathOf: (volume: V) => string;
  readonly deviceOf: (volume: V) => string;
  cleanUp(): Promise<void>;
}

/** On one device, of which the end is cut off. */
export function wholeGround<V extends LoopVolume | LvmVolume>(volume: V, fixture: WholeFixture<V>): HostileGround {
  const { storage } = fixture;
  const path = fixture.mountPathOf(volume);
  let mounted: Mounted<V>;
  const mount = async (): Promise<void> => {
    mounted = await storage.stage(volume, INITIAL_BYTES, path);
  };
  return {
    directory: fixture.directory,
    begin: async () => {
      await mount();
      return path;
    },
    grow: () => storage.extend(mounted, 2 * GIB),
    shrink: () => storage.shrink(mounted, 512 * MIB, makeShrinkControl()),
    remount: async () => {
      await asKubelet(() => storage.unstage(volume, path));
      await mount();
    },
    endChecked: async () => {
      await asKubelet(() => storage.unstage(volume, path));
      check(fixture.deviceOf(volume));
    },
    cleanUp: () => fixture.cleanUp(),
  };
}

/** It asks again: a program that begins with mounts of its own has a copy of ours for a moment. */
async function asKubelet(unstage: () => Promise<void>): Promise<void> {
  for (let left = 60; ; left -= 1)
    try {
      return await unstage();
    } catch (error) {
      if (left === 0 || (error as StorageError).code !== "DeviceBusy") throw error;
      await pause(1000);
    }
}

const SPAN_BYTES = [GIB, 512 * MIB, 448 * MIB] as const;

/** Of three members, the last of which it grows by: the two smaller ones are to leave. */
export async function spanGround(): Promise<HostileGround> {
  const fixture = await createSpanFixture();
  const { storage } = fixture;
  const members = SPAN_BYTES.map((bytes, index) => makeMember(fixture, `m${index}`, bytes));
  const [m0, m1, m2] = members as [SpanMember, SpanMember, SpanMember];
  const volume = makeSpan([m0]);
  const path = fixture.mountPathOf(volume);
  let inside: readonly SpanMember[] = [m0];
  let staged: MountedSpan;
  const mounted = (those: readonly SpanMember[]): MountedSpan => withMembers(staged, those);
  const extend = (those: readonly SpanMember[]): Promise<number> => {
    inside = those;
    return storage.extend(mounted(those), bytesOf(those));
  };
  return {
    directory: fixture.directory,
    begin: async () => {
      staged = await storage.stage(volume, 0, path);
      await extend([m0, m1]);
      return path;
    },
    grow: () => extend(members),
    shrink: async () => {
      const result = await storage.shrink(mounted([m0, leaving(m1), leaving(m2)]), bytesOf([m0]), makeShrinkControl());
      // Their sizes say which of them are left.
      const left = [members, [m0, m1], [m0, m2], [m0]].find((those) => bytesOf(those) === result.sizeBytes);
      if (left === undefined) throw new Error(`it has ${result.sizeBytes} bytes, which no members have`);
      inside = left;
      return result;
    },
    remount: async () => {
      await asKubelet(() => storage.unstage(mounted(inside), path));
      staged = await storage.stage(withMembers(volume, inside), 0, path);
    },
    endChecked: async () => {
      await asKubelet(() => storage.unstage(mounted(inside), path));
      const devices = inside.map((member) => losetup("--find", "--show", "--read-only", fixture.fileOf(member)));
      try {
        check(devices[0] ?? "");
      } finally {
        losetup("--detach", ...devices);
      }
    },
    cleanUp: () => fixture.cleanUp(),
  };
}

function bytesOf(members: readonly SpanMember[]): number {
  return members.reduce((sum, { sizeBytes }) => sum + (sizeBytes ?? 0), 0);
}

function check(device: string): void {
  execFileSync("btrfs", ["check", "--readonly", device], { stdio: ["ignore", "pipe", "pipe"] });
}

function losetup(...args: readonly string[]): string {
  return execFileSync("losetup", args, { encoding: "utf8" }).trim();
}
