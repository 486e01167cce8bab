// lvmd's own operations on real LVM with loop devices, without its process: a test can look at the world, and change it, right before and
// right after each effect.
import { execFileSync } from "node:child_process";
import { closeSync, mkdirSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { GIB } from "../../../src/contracts/quantities/quantity.ts";
import { createGroupQueues, createLvm } from "../../../src/lvmd/lvm/lvm.ts";
import { createReportCache } from "../../../src/lvmd/lvm/report-cache.ts";
import type { DeviceClass, Settings } from "../../../src/lvmd/settings/settings.ts";
import {
  createReductionsUnderWay,
  loadReduceTokens,
  type ReduceTokens,
} from "../../../src/lvmd/volumes/reduce/reductions.ts";
import type { VolumeHost } from "../../../src/lvmd/volumes/volume-host.ts";
import { systemClock } from "../../../src/platform/process/clock.ts";
import { createCommandPort } from "../../../src/platform/process/effects/command-port.ts";
import type { EffectPoint, Effects } from "../../../src/platform/process/effects/effects.ts";
import { createFilePort } from "../../../src/platform/process/effects/file-port.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import { createLvmOnLoop } from "../../lvm-on-loop/lvm-on-loop.ts";

const COMMAND_LIMIT_MS = 120_000;

/** "operation/step/before" or "operation/step/after". */
type Passage = `${EffectPoint}/${"before" | "after"}`;

export interface LvmdOnLoop {
  readonly host: VolumeHost;
  readonly group: string;
  readonly tokenDirectory: string;
  /** Every effect that was carried out to its end, in order. */
  readonly done: EffectPoint[];
  /** Called at each passage, with how many there were of it before; a throw at "before" keeps the effect from being done. */
  at: (passage: Passage, before: number) => void | Promise<void>;
  /** As lvmd reads them when it starts. */
  loadTokens(): ReduceTokens;
  /** By LVM itself, as somebody else would. */
  lvm(...command: readonly string[]): Promise<string>;
  /** Creates a volume; returns its path and LVM's UUID. */
  create(name: string, sizeBytes: number): Promise<{ readonly path: string; readonly uuid: string }>;
  /** As LVM has it; undefined: it is gone. */
  sizeOf(name: string): Promise<number | undefined>;
  close(): Promise<void>;
}

/** A volume group of 16 GiB, sparse and in memory; the class "class" points at it. */
export async function createLvmdOnLoop(): Promise<LvmdOnLoop> {
  const directory = mkdtempSync("/dev/shm/tidemark-lvmd-");
  const group = `tidemark-${directory.slice(-6)}`;
  const tokenDirectory = join(directory, "tokens");
  mkdirSync(tokenDirectory);
  const ground = await createLvmOnLoop(join(directory, "lvm"));
  await ground.addGroup(group, 16 * GIB);
  const done: EffectPoint[] = [];
  const passed = new Map<Passage, number>();
  const pass = async (passage: Passage): Promise<void> => {
    const before = passed.get(passage) ?? 0;
    passed.set(passage, before + 1);
    await lvmd.at(passage, before);
  };
  const effects: Effects = {
    run: async (point, effect) => {
      await pass(`${point}/before`);
      const result = await effect();
      done.push(point);
      await pass(`${point}/after`);
      return result;
    },
  };
  const host = createHost(effects, ground.command, group);
  const lvmd: LvmdOnLoop = {
    ...{ host, group, tokenDirectory, done, lvm: ground.lvm },
    at: () => undefined,
    loadTokens: () => loadReduceTokens(tokenDirectory, host.files, systemClock),
    create: async (name, sizeBytes) => {
      await ground.lvm("lvcreate", "--yes", "--name", name, "--size", `${sizeBytes}b`, group);
      const uuid = (await host.reports.fresh()).get(group)?.volumes.get(name)?.uuid ?? "";
      return { path: `/dev/${group}/${name}`, uuid };
    },
    sizeOf: async (name) => (await host.reports.fresh()).get(group)?.volumes.get(name)?.sizeBytes,
    close: async () => {
      host.reports.stop();
      await ground.remove();
      rmSync(directory, { recursive: true, force: true });
    },
  };
  return lvmd;
}

function createHost(effects: Effects, command: string, group: string): VolumeHost {
  const commands = createCommandPort(effects);
  const log = createLogger("test", "silent");
  const queues = createGroupQueues();
  const prefix = (): [`/${string}`] => [command as `/${string}`];
  const lvm = createLvm({ commands, prefix, limitMs: COMMAND_LIMIT_MS, ended: () => undefined });
  const deviceClass: DeviceClass = {
    ...{ name: "class", volumeGroup: group, isDefault: true, spareBytes: 0, lvcreateOptions: [] },
    ...{ stripe: undefined, stripeSize: undefined, thinPool: undefined },
  };
  const settings = { deviceClasses: [deviceClass], optionClasses: [] } as Partial<Settings> as Settings;
  return {
    ...{ lvm, queues, commands, log },
    settings: () => settings,
    reports: createReportCache(lvm, queues.isBusy, log),
    reductions: createReductionsUnderWay(),
    poolProblems: new Map(),
    waitingTags: new Map(),
    files: createFilePort(effects),
  };
}

const MARK = Buffer.alloc(4096, "somebody's secret ");

/** Leaves something at each of these places of a device, on the device itself. */
export function writeMarks(path: string, offsets: readonly number[]): void {
  const device = openSync(path, "r+");
  try {
    for (const offset of offsets) writeSync(device, MARK, 0, MARK.length, offset);
  } finally {
    closeSync(device);
  }
  execFileSync("blockdev", ["--flushbufs", path]);
}

/** Those of these places at which anything but zeros is on the device. */
export function marksLeft(path: string, offsets: readonly number[]): number[] {
  execFileSync("blockdev", ["--flushbufs", path]);
  const device = openSync(path, "r");
  try {
    return offsets.filter((offset) => {
      const block = Buffer.alloc(MARK.length);
      readSync(device, block, 0, block.length, offset);
      return block.some((byte) => byte !== 0);
    });
  } finally {
    closeSync(device);
  }
}
