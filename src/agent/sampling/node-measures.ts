// What samples carry beside the filesystem's own figures: room where members are made, and how busy a member device is. Read
// every few seconds from sysfs and storage, away from the sampling itself.
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import type { Storage } from "../storage/storage.ts";
import type { VolumeState, VolumeStates } from "../volumes/volume-state.ts";
import type { NodeMeasures } from "./wire-sample.ts";

const REFRESH_INTERVAL_MS = 5000;
/** Column of /sys/block/DEVICE/stat: milliseconds in which at least one request was under way. */
const IO_TICKS_COLUMN = 9;

interface Busy {
  readonly atMs: number;
  readonly ticksMs: number;
  readonly ratio: number;
}

export interface NodeMeasurer {
  of(state: VolumeState): NodeMeasures;
  stop(): void;
}

export function startNodeMeasurer(
  storage: Pick<Storage, "freeBytes">,
  states: VolumeStates,
  clock: Clock,
  log: Logger,
): NodeMeasurer {
  const busyByHandle = new Map<string, Busy>();
  /** By device class; under undefined that of the node's own disk. */
  const freeBytes = new Map<string | undefined, number>();
  const measureFree = async (): Promise<void> => {
    for (const deviceClass of new Set([undefined, ...[...states.values()].map(deviceClassOf)])) {
      const bytes = await storage.freeBytes(deviceClass);
      if (bytes === undefined) freeBytes.delete(deviceClass);
      else freeBytes.set(deviceClass, bytes);
    }
  };
  let measuring: Promise<void> | undefined;
  const refreshFree = (): void => {
    measuring ??= measureFree()
      .catch((err: unknown) => log.warn({ err }, "free bytes not measured"))
      .finally(() => {
        measuring = undefined;
      });
  };
  const refresh = (): void => {
    refreshFree();
    for (const { handle, mounted } of states.values()) {
      const busy = mounted === undefined ? undefined : measure(mounted.device, busyByHandle.get(handle), clock);
      if (busy === undefined) busyByHandle.delete(handle);
      else busyByHandle.set(handle, busy);
    }
  };
  refresh();
  const timer = setInterval(refresh, REFRESH_INTERVAL_MS);
  return {
    of: (state) => {
      const deviceClass = deviceClassOf(state);
      // The first volume of its class does not wait for the next refresh.
      if (!freeBytes.has(deviceClass)) refreshFree();
      return { freeBytes: freeBytes.get(deviceClass), ioUtilizationRatio: busyByHandle.get(state.handle)?.ratio ?? 0 };
    },
    stop: () => clearInterval(timer),
  };
}

function deviceClassOf({ record }: VolumeState): string | undefined {
  return record.backend === "lvm" ? record.deviceClass : undefined;
}

/** Undefined where there is no block device, as on the simulated disk. */
function measure(device: string, before: Busy | undefined, clock: Clock): Busy | undefined {
  try {
    const stat = readFileSync(`/sys/block/${basename(device)}/stat`, "utf8")
      .trim()
      .split(/\s+/);
    const ticksMs = Number(stat[IO_TICKS_COLUMN]);
    const atMs = clock.monotonicMs();
    const ratio = before === undefined ? 0 : (ticksMs - before.ticksMs) / Math.max(1, atMs - before.atMs);
    return { atMs, ticksMs, ratio: Math.min(1, Math.max(0, ratio)) };
  } catch {
    return undefined;
  }
}
