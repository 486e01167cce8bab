// The sampling thread: reads mounted filesystems synchronously and posts what it reads. A filesystem that never answers
// stops this thread for good; the main thread then leaves it behind. It decides nothing and writes nothing.
import { parentPort, workerData } from "node:worker_threads";
import { openReader, type Reader } from "../storage/filesystem/read-filesystem.ts";
import { createGrowthTracker, type GrowthTracker } from "./growth.ts";
import { packReadings, type SlotReading } from "./sample-batch.ts";
import {
  BEAT_CELL,
  BEAT_INTERVAL_MS,
  type FromSamplingThread,
  READING_CELL,
  type SamplingThreadData,
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
    Atomics.add(cells, BEAT_CELL, 1);
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
      if (isWorthPosting(sampled, reading)) readings.push(reading);
    } catch (error) {
      sampled.reader = closeQuietly(sampled.reader);
      sampled.intervalMs = INTERVAL_MAX_MS;
      sampled.dueMs = performance.now() + INTERVAL_MAX_MS;
      post(port, { type: "unreadable", slot: sampled.watched.slot, message: String(error) });
    }
  }
  return readings;
}

function sample(sampled: Sampled, cells: Int32Array): SlotReading {
  const reading = guarded(cells, sampled.watched.slot, () => {
    sampled.reader ??= openReader(sampled.watched);
    return sampled.reader.read();
  });
  // What a resize moves looks like writing at the speed of the disk: taken for a writer's peak it would demand a reserve that
  // stops the very shrink, and all others for a minute.
  if (sampled.operationInProgress || reading.movesData) sampled.growth.restart();
  else sampled.growth.observe(performance.now(), reading.dataBytes);
  const slotReading = describe(sampled, reading);
  planNext(sampled, slotReading);
  return slotReading;
}

/** Whoever watches this thread sees which filesystem it is in. */
function guarded<T>(cells: Int32Array, slot: number, read: () => T): T {
  Atomics.add(cells, BEAT_CELL, 1);
  Atomics.store(cells, READING_CELL, slot + 1);
  try {
    return read();
  } finally {
    Atomics.store(cells, READING_CELL, 0);
  }
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

function describe({ watched, growth }: Sampled, reading: ReturnType<Reader["read"]>): SlotReading {
  return {
    slot: watched.slot,
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

function planNext(sampled: Sampled, reading: SlotReading): void {
  sampled.intervalMs = isForeign(sampled) ? INTERVAL_MAX_MS : intervalMs(sampled, reading);
  sampled.dueMs = performance.now() + sampled.intervalMs;
}

/** Its statfs may be a request to a server: never asked for more often than is needed of a filesystem that is idle. */
function isForeign({ watched }: Sampled): boolean {
  return watched.fsType === "foreign";
}

function intervalMs(sampled: Sampled, reading: SlotReading): number {
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

/** Changed, or the last one is so old that somebody might take the silence for a gap. */
function isWorthPosting(sampled: Sampled, { capacityBytes, availableBytes }: SlotReading): boolean {
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

if (parentPort !== null) runSamplingThread(parentPort, (workerData as SamplingThreadData).cells);
