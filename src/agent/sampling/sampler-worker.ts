// The sampling thread: reads mounted filesystems synchronously and posts what it reads. A filesystem that never answers blocks this thread
// without end; the main thread then leaves it behind. It decides nothing and writes nothing.
import { parentPort, workerData } from "node:worker_threads";
import type { SampledReading } from "../../contracts/reading.ts";
import { BEAT_INTERVAL_MS, beat, inPlace, type ThreadData } from "../../platform/process/threads/abandonable-thread.ts";
import { openReader, type Reader } from "../storage/in-threads/read-filesystem.ts";
import { createGrowthTracker, type GrowthTracker } from "./growth.ts";
import {
  type FromSamplingThread,
  packReadings,
  type SlotReading,
  type ToSamplingThread,
  type Watched,
} from "./sampler-messages.ts";
import { INTERVAL_MAX_MS, samplingIntervalMs } from "./sampling-interval.ts";

/** A filesystem due within this part of its interval is read in the same round; idle ones so come to share one wake-up. */
const ROUND_RATIO = 0.1;
const IDLE_ROUND_RATIO = 0.5;

interface Sampled {
  readonly watched: Watched;
  readonly growth: GrowthTracker;
  reader: Reader | undefined;
  dueMs: number;
  intervalMs: number;
  postedMs: number;
  postedAvailableBytes: number;
  postedCapacityBytes: number;
  nextExtendUsedBytes: number;
  minAvailableBytes: number;
  operationInProgress: boolean;
}

type Port = NonNullable<typeof parentPort>;

function runSamplingThread(port: Port, cells: Int32Array): void {
  const sampledBySlot = new Map<number, Sampled>();
  let timer: NodeJS.Timeout | undefined;
  const scheduleRound = (): void => {
    clearTimeout(timer);
    let nextMs = performance.now() + BEAT_INTERVAL_MS;
    for (const { dueMs } of sampledBySlot.values()) nextMs = Math.min(nextMs, dueMs);
    timer = setTimeout(round, Math.max(0, nextMs - performance.now()));
  };
  const round = (): void => {
    postReadings(port, sampleDue(port, cells, sampledBySlot.values()));
    beat(cells);
    scheduleRound();
  };
  port.on("message", (message: ToSamplingThread) => {
    receive(sampledBySlot, message);
    scheduleRound();
  });
  scheduleRound();
}

/** One reading of each filesystem that is due, where there is one to post. */
function sampleDue(port: Port, cells: Int32Array, all: Iterable<Sampled>): SlotReading[] {
  const readings: SlotReading[] = [];
  const nowMs = performance.now();
  for (const sampled of all) {
    if (sampled.dueMs - nowMs > (isForeign(sampled) ? 0 : sampled.intervalMs * roundRatio(sampled))) continue;
    try {
      const reading = sample(sampled, cells);
      if (isWorthPosting(sampled, reading)) readings.push({ slot: sampled.watched.slot, reading });
    } catch (error) {
      sampled.reader = closeQuietly(sampled.reader);
      sampled.intervalMs = INTERVAL_MAX_MS;
      sampled.dueMs = performance.now() + INTERVAL_MAX_MS;
      post(port, { type: "unreadable", slot: sampled.watched.slot, message: String(error) });
    }
  }
  return readings;
}

function sample(sampled: Sampled, cells: Int32Array): SampledReading {
  const reading = inPlace(cells, sampled.watched.slot + 1, () => {
    sampled.reader ??= openReader(sampled.watched);
    return sampled.reader.read();
  });
  // What a resize moves looks like writing at the speed of the disk: taken for a writer's peak it would demand a reserve that
  // stops the very shrink, and all others for a minute.
  if (sampled.operationInProgress || reading.movesData) sampled.growth.restart();
  else sampled.growth.observe(performance.now(), reading.dataBytes);
  const sampledReading = describe(sampled, reading);
  planNext(sampled, sampledReading);
  return sampledReading;
}

function postReadings(port: Port, readings: readonly SlotReading[]): void {
  if (readings.length === 0) return;
  const rows = packReadings(readings);
  post(port, { type: "readings", rows }, [rows.buffer]);
}

function post(port: Port, message: FromSamplingThread, transfer: ArrayBuffer[] = []): void {
  port.postMessage(message, transfer);
}

function receive(sampledBySlot: Map<number, Sampled>, message: ToSamplingThread): void {
  if (message.type === "watch") {
    sampledBySlot.set(message.watched.slot, newlySampled(message.watched));
    return;
  }
  const sampled = sampledBySlot.get(message.slot);
  if (sampled === undefined) return;
  switch (message.type) {
    case "forget":
      closeQuietly(sampled.reader);
      sampledBySlot.delete(message.slot);
      return;
    case "guide":
      sampled.nextExtendUsedBytes = message.nextExtendUsedBytes;
      sampled.minAvailableBytes = message.minAvailableBytes;
      if (!isForeign(sampled)) sampled.dueMs = performance.now();
      return;
    case "operation":
      sampled.operationInProgress = message.inProgress;
      sampled.postedMs = Number.NEGATIVE_INFINITY;
      sampled.dueMs = performance.now();
      if (!message.inProgress) sampled.growth.restart();
      return;
  }
}

function newlySampled(watched: Watched): Sampled {
  return {
    watched,
    growth: createGrowthTracker(),
    reader: undefined,
    dueMs: performance.now(),
    intervalMs: INTERVAL_MAX_MS,
    postedMs: Number.NEGATIVE_INFINITY,
    postedAvailableBytes: Number.NaN,
    postedCapacityBytes: Number.NaN,
    nextExtendUsedBytes: 0,
    minAvailableBytes: 0,
    operationInProgress: false,
  };
}

function describe({ growth }: Sampled, reading: ReturnType<Reader["read"]>): SampledReading {
  return {
    sampledAtMs: reading.sampledAtMs,
    takenMs: reading.takenMs,
    capacityBytes: reading.capacityBytes,
    availableBytes: reading.availableBytes,
    inodesTotal: reading.inodesTotal,
    inodesUsed: reading.inodesUsed,
    dataProfiles: reading.dataProfiles,
    growthBytesPerSecond: growth.growthBytesPerSecond(),
    peakWriteBytesPerSecond: growth.peakBytesPerSecond(performance.now()),
  };
}

function planNext(sampled: Sampled, reading: SampledReading): void {
  sampled.intervalMs = isForeign(sampled) ? INTERVAL_MAX_MS : intervalMs(sampled, reading);
  sampled.dueMs = performance.now() + sampled.intervalMs;
}

/** Its statfs may be a request to a server: never asked for more often than is needed of a filesystem that is idle. */
function isForeign({ watched }: Sampled): boolean {
  return watched.fsType === "foreign";
}

function intervalMs(sampled: Sampled, reading: SampledReading): number {
  return samplingIntervalMs({
    usedBytes: reading.capacityBytes - reading.availableBytes,
    availableBytes: reading.availableBytes,
    rateBytesPerSecond: Math.max(
      reading.growthBytesPerSecond,
      reading.peakWriteBytesPerSecond,
      sampled.growth.newestBytesPerSecond(),
    ),
    nextExtendUsedBytes: sampled.nextExtendUsedBytes,
    minAvailableBytes: sampled.minAvailableBytes,
    operationInProgress: sampled.operationInProgress,
  });
}

/** Changed, or the last post is so old that an engine might take the silence for a gap. */
function isWorthPosting(sampled: Sampled, { capacityBytes, availableBytes }: SampledReading): boolean {
  const nowMs = performance.now();
  const changed = sampled.postedAvailableBytes !== availableBytes || sampled.postedCapacityBytes !== capacityBytes;
  if (!changed && nowMs - sampled.postedMs < INTERVAL_MAX_MS * (1 - roundRatio(sampled))) return false;
  sampled.postedMs = nowMs;
  sampled.postedAvailableBytes = availableBytes;
  sampled.postedCapacityBytes = capacityBytes;
  return true;
}

function roundRatio({ intervalMs }: Sampled): number {
  return intervalMs === INTERVAL_MAX_MS ? IDLE_ROUND_RATIO : ROUND_RATIO;
}

function closeQuietly(reader: Reader | undefined): undefined {
  try {
    reader?.close();
  } catch {
    // The filesystem is gone, and its files with it.
  }
  return undefined;
}

if (parentPort !== null) runSamplingThread(parentPort, (workerData as ThreadData).cells);
