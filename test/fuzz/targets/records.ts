// The records on a node's disk: one that is accepted is equal when it has been written and read again.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isPersistentMount } from "../../../src/agent/ordinary-claims/find-claims.ts";
import { memberRecordPath, readMemberRecord } from "../../../src/agent/storage/block/member-record.ts";
import {
  readUnmountedShrink,
  unmountedShrinkPath,
  unmountedShrinkText,
} from "../../../src/agent/storage/lvm/finish-unmounted-shrink.ts";
import type { LvmHost } from "../../../src/agent/storage/lvm/lvm-host.ts";
import { recordedTokens, reductionRecordPath } from "../../../src/agent/storage/lvm/reduce.ts";
import {
  readSimulatedMember,
  simulatedMemberPath,
  simulatedMemberText,
} from "../../../src/agent/storage/simulated/simulated-storage.ts";
import { readSpanRecord, spanRecordPath, spanRecordText } from "../../../src/agent/storage/span/span-host.ts";
import type { LoopVolume, LvmMember, SpanVolume } from "../../../src/agent/storage/storage.ts";
import { createNodeRecords } from "../../../src/agent/volumes/node-records.ts";
import { volumeUIDOf } from "../../../src/contracts/identity.ts";
import { systemClock } from "../../../src/platform/process/clock.ts";
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../../src/platform/process/effects/file-port.ts";
import { jsonMutator } from "../mutate.ts";
import { fixtures } from "../seeds.ts";
import { type FuzzTarget, Refused } from "../target.ts";

const files = createFilePort(directEffects);
const HANDLE = "fs-11111111-2222-4333-8444-555555555555";
const LVM = { handle: HANDLE, volumeID: "lv-1", deviceClass: "ssd" } as LvmMember;

interface RecordKind<Record> {
  readonly name: string;
  readonly parsers: readonly string[];
  readonly seeds: () => readonly Buffer[];
  readonly words: readonly string[];
  readonly path: (directory: string) => string;
  /** Undefined: refused. */
  readonly read: (directory: string) => Record | undefined;
  /** As it is written. */
  readonly text?: (record: Record) => string;
  readonly assertRight?: (record: Record) => void;
}

function records<Record>({
  name,
  parsers,
  seeds,
  words,
  path,
  read,
  text,
  assertRight,
}: RecordKind<Record>): FuzzTarget {
  return {
    name,
    parsers,
    seeds,
    mutate: jsonMutator(words),
    refusals: ["StorageError", "Refused", "ZodError", "SyntaxError"],
    start: (directory) => ({
      take: (input) => {
        writeFileSync(path(directory), input);
        const record = read(directory);
        if (record === undefined) throw new Refused("not understood");
        assertRight?.(record);
        writeFileSync(path(directory), text?.(record) ?? JSON.stringify(record));
        assert.deepEqual(read(directory), withPlainZeros(record), "another one when it is read again");
      },
    }),
    cost: 4,
  };
}

/** JSON reads -0, and never writes it: to whoever reads a size or a number it is 0. */
function withPlainZeros<Value>(value: Value): Value {
  if (value === 0) return 0 as Value;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(withPlainZeros) as Value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withPlainZeros(each)])) as Value;
}

const isBytes = (...values: readonly (number | undefined)[]): void => {
  for (const value of values) assert.ok(value === undefined || Number.isSafeInteger(value), `${value}`);
};

/** Inputs that have failed once: thousands of items that are none, and a number of which JSON writes another. */
function withWrongItems(text: Buffer, list: string): Buffer {
  const record = JSON.parse(text.toString("utf8")) as Record<string, unknown>;
  return Buffer.from(JSON.stringify({ ...record, [list]: Array<number>(30_000).fill(1) }));
}

function withMinusZero(text: Buffer): Buffer {
  return Buffer.from(text.toString("utf8").replace(/("(?:epoch|devid|monotonicMs)": )\d+/g, "$1-0"));
}

const nodeRecords = records({
  name: "node records",
  parsers: ["src/agent/volumes/node-records.ts"],
  seeds: () => {
    const spans = fixtures("agent/volumes").filter((text) => text.includes('"span"'));
    return [
      ...fixtures("agent/volumes"),
      ...spans.flatMap((text) => [withWrongItems(text, "members"), withMinusZero(text)]),
    ];
  },
  words: [
    "loop",
    "lvm",
    "span",
    "backend",
    "members",
    "grant",
    "operation",
    "Spare",
    "memberMade",
    "2026-01-01T00:00:00Z",
    HANDLE,
    "10Gi",
  ],
  path: (directory) => join(directory, `${HANDLE}.json`),
  read: (directory) => createNodeRecords(directory, files, () => {}).readAll()[0],
  assertRight: ({ handle, epoch }) => {
    assert.ok(volumeUIDOf(handle) !== undefined && !handle.includes("/"));
    assert.ok(Number.isSafeInteger(epoch) && epoch >= 0);
  },
});

const memberRecords = records({
  name: "member records",
  parsers: ["src/agent/storage/block/member-record.ts"],
  seeds: () => fixtures("agent/members", ".member.json"),
  words: ["formatting", "formatted", "mounted", "btrfs", "state"],
  path: (directory) => memberRecordPath(directory, "m"),
  read: (directory) => readMemberRecord(directory, "m"),
  assertRight: ({ index, count }) => isBytes(index, count),
});

const spanVolume = { handle: HANDLE } as SpanVolume;
const spanRecords = records({
  name: "span records",
  parsers: ["src/agent/storage/span/span-host.ts"],
  seeds: () => {
    const found = fixtures("agent/members", ".span.json");
    return [...found, ...found.flatMap((text) => [withWrongItems(text, "removals"), withMinusZero(text)])];
  },
  words: ["leaving", "released", "removals", "devid", "mounted"],
  path: (directory) => spanRecordPath({ recordDirectory: directory }, spanVolume),
  read: (directory) => readSpanRecord({ recordDirectory: directory }, spanVolume),
  text: spanRecordText,
  assertRight: ({ removals }) => {
    for (const { devid, sizeBytes } of removals) isBytes(devid, sizeBytes);
  },
});

const hostOf = (directory: string): LvmHost =>
  ({ recordDirectory: directory, socketDirectory: join(directory, "no") }) as LvmHost;

const reductions = records({
  name: "records of reductions",
  parsers: ["src/agent/storage/lvm/reduce.ts"],
  seeds: () => fixtures("agent/members", ".reduction.json"),
  words: ["token", "fromBytes", "toBytes"],
  path: (directory) => reductionRecordPath(hostOf(directory), LVM),
  read: (directory) => [...recordedTokens(hostOf(directory), LVM)][0],
  // The token is all that is read of it.
  text: (token) => JSON.stringify({ token, lvUUID: "lv", fromBytes: 2, toBytes: 1 }),
  assertRight: (token) => assert.equal(typeof token, "string"),
});

const unmountedShrinks = records({
  name: "records of unmounted shrinks",
  parsers: ["src/agent/storage/lvm/finish-unmounted-shrink.ts"],
  seeds: () => fixtures("agent/members", ".unmounted-shrink.json"),
  words: ["Begun", "Guarded", "Proven", "RollingBack", "phase", "mountCount"],
  path: (directory) => unmountedShrinkPath(hostOf(directory), LVM),
  read: (directory) => readUnmountedShrink(hostOf(directory), LVM),
  text: unmountedShrinkText,
  assertRight: ({ fromBytes, toBytes, filesystemBytes, mountCount }) =>
    isBytes(fromBytes, toBytes, filesystemBytes, mountCount),
});

const simulatedVolume = { handle: HANDLE, memberFile: "m.img" } as LoopVolume;
const diskOf = (directory: string) => ({ directory, files, clock: systemClock });

const simulatedMembers = records({
  name: "members of the simulated disk",
  parsers: ["src/agent/storage/simulated/simulated-storage.ts"],
  seeds: () => [
    Buffer.from(
      simulatedMemberText({
        volumeUID: "u",
        fsid: "f",
        fsType: "btrfs",
        capacityBytes: 2 ** 30,
        mountPath: "/m",
        staged: true,
      }),
    ),
  ],
  words: ["btrfs", "ext4", "staged"],
  path: (directory) => simulatedMemberPath(diskOf(directory), simulatedVolume),
  read: (directory) => readSimulatedMember(diskOf(directory), simulatedVolume),
  text: simulatedMemberText,
  assertRight: ({ capacityBytes }) => isBytes(capacityBytes),
});

const SOURCE = { driver: "other.example.com", volumeHandle: "vol-1" };

const kubeletRecords: FuzzTarget = {
  name: "kubelet's records of volumes",
  parsers: ["src/agent/ordinary-claims/find-claims.ts"],
  seeds: () => [
    JSON.stringify({ driverName: SOURCE.driver, volumeHandle: SOURCE.volumeHandle, volumeLifecycleMode: "Persistent" }),
  ],
  mutate: jsonMutator(["Persistent", "Ephemeral", SOURCE.driver, SOURCE.volumeHandle]),
  refusals: ["Refused"],
  start: (directory) => {
    const mountPath = join(directory, "pod/mount");
    mkdirSync(mountPath, { recursive: true });
    const source = SOURCE as Parameters<typeof isPersistentMount>[1];
    return {
      take: (input) => {
        writeFileSync(join(directory, "pod/vol_data.json"), input);
        const mount = { mountPath } as Parameters<typeof isPersistentMount>[0];
        if (!isPersistentMount(mount, source)) throw new Refused("another volume");
        const {
          driverName,
          volumeHandle,
          volumeLifecycleMode = "Persistent",
        } = JSON.parse(input.toString("utf8")) as Record<string, string>;
        assert.deepEqual(
          [driverName, volumeHandle, volumeLifecycleMode],
          [SOURCE.driver, SOURCE.volumeHandle, "Persistent"],
        );
      },
    };
  },
  cost: 2,
};

export const RECORD_TARGETS: readonly FuzzTarget[] = [
  ...[nodeRecords, memberRecords, spanRecords, reductions, unmountedShrinks, simulatedMembers],
  kubeletRecords,
];
