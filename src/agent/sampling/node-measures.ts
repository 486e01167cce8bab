// One volume's newest reading as the policy-engine gets it, and what samples carry in addition to the filesystem's own figures: room where members are made, and how busy a member device is. Read every
// few seconds from sysfs and storage, away from the sampling itself.

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import type { Sample } from "../../contracts/gen/tidemark/samples/v1/samples.ts";
import { type SampledReading, writeSample } from "../../contracts/reading.ts";
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { FreeSpace } from "../storage/storage.ts";
import type { VolumesByHandle } from "../volumes/node-volume.ts";
import type { NodeVolumeState } from "../volumes/volume-state.ts";

const REFRESH_INTERVAL_MS = 5000;
/** Column of /sys/block/DEVICE/stat: milliseconds in which at least one request was under way. */
const IO_TICKS_COLUMN = 9;

interface Busy {
  readonly atMs: number;
  readonly ticksMs: number;
  readonly ratio: number;
}

export interface NodeMeasurer {
  of(state: NodeVolumeState): NodeMeasures;
  stop(): void;
}

export function startNodeMeasurer(
  storage: FreeSpace,
  volumes: VolumesByHandle,
  clock: Clock,
  log: Logger,
): NodeMeasurer {
  const busyByHandle = new Map<string, Busy>();
  /** By device class; under undefined that of the node's own disk. */
  const freeBytes = new Map<string | undefined, number>();
  const measureFree = async (): Promise<void> => {
    for (const deviceClass of new Set([undefined, ...[...volumes.values()].map(({ state }) => deviceClassOf(state))])) {
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
    for (const { handle, state } of volumes.values()) {
      const { mounted } = state;
      const busy = mounted === undefined ? undefined : measure(mounted.volume.device, busyByHandle.get(handle), clock);
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

function deviceClassOf({ record }: NodeVolumeState): string | undefined {
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

export interface NodeMeasures {
  /** Free bytes where members are made; undefined: not measured yet. */
  readonly freeBytes: number | undefined;
  readonly ioUtilizationRatio: number;
}

/** What a node's own disk has bounds no filesystem whose members come from elsewhere. */
export const UNBOUNDED_BYTES = 2 ** 50;

/** Older readings are not sent: an engine counts the age of a sample from its arrival. */
const RECENT_MS = 10_000;

export function isRecent(reading: SampledReading | undefined, monotonicMs: number): boolean {
  return reading !== undefined && monotonicMs - reading.takenMs < RECENT_MS;
}

/** Undefined while there is no reading, no size that belongs to it, or no figure of the node: 0 would be taken for a full one. */
export function wireSample(
  state: NodeVolumeState,
  { freeBytes, ioUtilizationRatio }: NodeMeasures,
): Sample | undefined {
  const { handle, reading, sizeBytes, record } = state;
  const nodeFreeBytes = record.backend === "span" ? UNBOUNDED_BYTES : freeBytes;
  if (reading === undefined || sizeBytes === undefined || nodeFreeBytes === undefined) return undefined;
  const isAfterLast = reading.takenMs >= state.operationEndedMs;
  return writeSample(reading, {
    volumeHandle: handle,
    sizeBytes,
    operationInProgress: state.running !== undefined,
    // Its name, as the layout's status has it: whatever this node's clock showed then and shows now.
    lastOperationEndedAtMs: isAfterLast ? Date.parse(record.lastOperation?.endedAt ?? "") || 0 : 0,
    ioUtilizationRatio,
    nodeFreeBytes,
  });
}
