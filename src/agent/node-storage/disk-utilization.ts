// How busy the disks under this node's mounted logical volumes are: the busiest one's share of the last minute in which it had work. Read
// from sysfs, once a minute.
import { readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import type { Clock } from "../../process/clock.ts";
import type { VolumeStates } from "../volumes/volume-state.ts";

export interface DiskUtilization {
  /** 0..1; undefined: nothing is mounted, or no minute is over yet. */
  ratio(): number | undefined;
  stop(): void;
}

const INTERVAL_MS = 60_000;
/** Column of a block device's stat: milliseconds in which at least one request was under way. */
const IO_TICKS_COLUMN = 9;

export function startDiskUtilization(
  states: VolumeStates,
  clock: Pick<Clock, "monotonicMs">,
  measured: () => void,
): DiskUtilization {
  let before = readTicks(states);
  let beforeMs = clock.monotonicMs();
  let ratio: number | undefined;
  const timer = setInterval(() => {
    const [ticks, nowMs] = [readTicks(states), clock.monotonicMs()];
    ratio = busiest(before, ticks, nowMs - beforeMs);
    [before, beforeMs] = [ticks, nowMs];
    measured();
  }, INTERVAL_MS);
  return { ratio: () => ratio, stop: () => clearInterval(timer) };
}

/** Of disks that were seen at both ends. */
export function busiest(
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
  elapsedMs: number,
): number | undefined {
  const ratios = [...after].flatMap(([disk, ticksMs]) => {
    const earlierMs = before.get(disk);
    return earlierMs === undefined ? [] : [Math.min(1, Math.max(0, (ticksMs - earlierMs) / Math.max(1, elapsedMs)))];
  });
  return ratios.length === 0 ? undefined : Math.max(...ratios);
}

function readTicks(states: VolumeStates): Map<string, number> {
  const devices = [...states.values()].flatMap(({ mounted }) => (mounted?.backend === "lvm" ? [mounted.device] : []));
  const disks = new Set(devices.flatMap((device) => disksUnder(basename(device))));
  return new Map([...disks].flatMap((disk) => ticksOf(disk)));
}

/** A logical volume lies on partitions or disks, a thin one on its pool's volumes before that. */
function disksUnder(name: string): string[] {
  const below = slavesOf(name);
  return below.length === 0 ? [name] : below.flatMap(disksUnder);
}

function slavesOf(name: string): string[] {
  try {
    return readdirSync(`/sys/class/block/${name}/slaves`);
  } catch {
    return []; // a partition has none, and a device may have gone
  }
}

function ticksOf(disk: string): [string, number][] {
  try {
    const columns = readFileSync(`/sys/class/block/${disk}/stat`, "utf8").trim().split(/\s+/);
    return [[disk, Number(columns[IO_TICKS_COLUMN])]];
  } catch {
    return [];
  }
}
