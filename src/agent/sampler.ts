// Sampling, seen from the main thread: which filesystems are watched, and that one which never answers stops no other. A
// thread that hangs is left behind (nothing can end it) and replaced by one without the filesystem it hangs on; should the
// filesystem ever answer, the thread ends, which is how its recovery is noticed. Here nothing touches a mount.
import { Worker } from "node:worker_threads";
import type { Clock } from "../process/clock.ts";
import type { Logger } from "../process/log.ts";
import { type SlotReading, unpackReadings } from "./sample-batch.ts";
import {
  BEAT_CELL,
  BEAT_INTERVAL_MS,
  CELL_COUNT,
  type FromSamplingThread,
  READING_CELL,
  type SamplingThreadData,
  type ToSamplingThread,
  type Watched,
} from "./sampler-messages.ts";
import type { ReadableMount } from "./storage/read-filesystem.ts";

/** Byte counts to look out for; 0: none known. */
interface Marks {
  readonly nextExtendUsedBytes: number;
  readonly minAvailableBytes: number;
}

/** Called synchronously, in the sampling thread's message; must not throw. */
export interface SamplerListener {
  readings(readings: readonly (Omit<SlotReading, "slot"> & { readonly handle: string })[]): void;
  unreadable(handle: string, message: string): void;
  /** The filesystem answers no more, or again. */
  hung(handle: string, hung: boolean): void;
}

export interface Sampler {
  /** From now on; watching twice is watching once. */
  watch(handle: string, mount: ReadableMount, minAvailableBytes: number): void;
  forget(handle: string): void;
  /** Marks of a filesystem that is not watched are dropped. 0: none. */
  setMinAvailable(handle: string, minAvailableBytes: number): void;
  setNextExtend(handle: string, nextExtendUsedBytes: number): void;
  /** At an operation's end one reading is taken at once. */
  operation(handle: string, inProgress: boolean): void;
  /** Threads that hang in the kernel. The process cannot exit with one; it can only be killed. */
  strandedThreads(): number;
  /** Undefined when it works. */
  unhealthy(): string | undefined;
  stop(): Promise<void>;
}

export interface SamplerOptions {
  /** The bundled sampling thread. */
  readonly workerPath: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly listener: SamplerListener;
}

/** A read takes microseconds, and milliseconds on a machine that has no time; this long it takes only in a hung kernel. */
const HUNG_AFTER_MS = 250;
const WATCHDOG_INTERVAL_MS = 250;
/** Without a beat and without a read: the thread itself is stuck, or starved. */
const SILENT_AFTER_MS = BEAT_INTERVAL_MS * 5;
/** Each holds a few MiB for as long as its filesystem hangs. */
const STRANDED_THREADS_MAX = 32;
const THREAD_LIMITS = { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 4, stackSizeMb: 1 };

interface Entry {
  readonly handle: string;
  readonly watched: Watched;
  marks: Marks;
  operationInProgress: boolean;
  hung: boolean;
}

interface SamplingThread {
  readonly worker: Worker;
  readonly cells: Int32Array;
  beat: number;
  reading: number;
  /** When the cells last changed, monotonic. */
  movedMs: number;
}

export function createSampler({ workerPath, clock, log, listener }: SamplerOptions): Sampler {
  const entryByHandle = new Map<string, Entry>();
  const entryBySlot = new Map<number, Entry>();
  let nextSlot = 0;
  let stranded = 0;
  let stopped = false;
  let thread: SamplingThread | undefined;

  const tell = (message: ToSamplingThread): void => thread?.worker.postMessage(message);
  const tellAll = (entry: Entry): void => {
    const { slot } = entry.watched;
    tell({ type: "watch", watched: entry.watched });
    tell({ type: "guide", slot, ...entry.marks });
    if (entry.operationInProgress) tell({ type: "operation", slot, inProgress: true });
  };
  const setHung = (entry: Entry, hung: boolean): void => {
    if (entry.hung === hung) return;
    entry.hung = hung;
    log[hung ? "error" : "info"](
      { volume: entry.handle, mountPath: entry.watched.mountPath },
      hung ? "the filesystem does not answer; it is no longer sampled" : "the filesystem answers again",
    );
    listener.hung(entry.handle, hung);
  };

  const startThread = (): void => {
    thread = openThread(workerPath, clock.monotonicMs());
    const started = thread;
    started.worker.on("message", (message: FromSamplingThread) => {
      if (started === thread) receive(message);
    });
    started.worker.on("error", (err) => log.error({ err }, "the sampling thread failed"));
    started.worker.on("exit", () => {
      if (started === thread && !stopped) setTimeout(() => !stopped && startThread(), BEAT_INTERVAL_MS).unref();
    });
    for (const entry of entryByHandle.values()) if (!entry.hung) tellAll(entry);
  };
  const receive = (message: FromSamplingThread): void => {
    if (message.type === "unreadable") {
      const entry = entryBySlot.get(message.slot);
      if (entry !== undefined) listener.unreadable(entry.handle, message.message);
      return;
    }
    const readings = unpackReadings(message.rows).flatMap(({ slot, ...reading }) => {
      const handle = entryBySlot.get(slot)?.handle;
      return handle === undefined ? [] : [{ ...reading, handle }];
    });
    if (readings.length > 0) listener.readings(readings);
  };

  const watchThread = (): void => {
    if (thread === undefined || stopped) return;
    const nowMs = clock.monotonicMs();
    if (hasMoved(thread)) thread.movedMs = nowMs;
    const stillMs = nowMs - thread.movedMs;
    if (thread.reading > 0 ? stillMs >= HUNG_AFTER_MS : stillMs >= SILENT_AFTER_MS) leaveBehind(thread);
  };
  const leaveBehind = (left: SamplingThread): void => {
    const entry = entryBySlot.get(left.reading - 1);
    stranded += 1;
    left.worker.unref();
    left.worker.once("exit", () => {
      stranded -= 1;
      if (entry === undefined || entryByHandle.get(entry.handle) !== entry) return;
      setHung(entry, false);
      tellAll(entry);
    });
    void left.worker.terminate();
    thread = undefined;
    if (entry !== undefined) setHung(entry, true);
    if (stranded <= STRANDED_THREADS_MAX) startThread();
  };

  const mark = (handle: string, change: Partial<Marks>): void => {
    const entry = entryByHandle.get(handle);
    if (entry === undefined) return;
    const marks = { ...entry.marks, ...change };
    if (sameMarks(entry.marks, marks)) return;
    entry.marks = marks;
    tell({ type: "guide", slot: entry.watched.slot, ...marks });
  };

  startThread();
  const watchdog = setInterval(watchThread, WATCHDOG_INTERVAL_MS);
  return {
    watch: (handle, mount, minAvailableBytes) => {
      if (entryByHandle.has(handle)) return;
      const { mountPath, fsType, fsid } = mount;
      const watched = { slot: nextSlot++, mountPath, fsType, fsid };
      const marks = { nextExtendUsedBytes: 0, minAvailableBytes };
      const entry: Entry = { handle, watched, marks, operationInProgress: false, hung: false };
      entryByHandle.set(handle, entry);
      entryBySlot.set(watched.slot, entry);
      tellAll(entry);
    },
    forget: (handle) => {
      const entry = entryByHandle.get(handle);
      if (entry === undefined) return;
      entryByHandle.delete(handle);
      entryBySlot.delete(entry.watched.slot);
      tell({ type: "forget", slot: entry.watched.slot });
    },
    setMinAvailable: (handle, minAvailableBytes) => mark(handle, { minAvailableBytes }),
    setNextExtend: (handle, nextExtendUsedBytes) => mark(handle, { nextExtendUsedBytes }),
    operation: (handle, inProgress) => {
      const entry = entryByHandle.get(handle);
      if (entry === undefined) return;
      entry.operationInProgress = inProgress;
      tell({ type: "operation", slot: entry.watched.slot, inProgress });
    },
    strandedThreads: () => stranded,
    unhealthy: () =>
      thread === undefined
        ? `sampling has stopped: ${stranded} threads hang on filesystems that do not answer`
        : undefined,
    stop: async () => {
      stopped = true;
      clearInterval(watchdog);
      await thread?.worker.terminate();
    },
  };
}

function openThread(workerPath: string, nowMs: number): SamplingThread {
  const cells = new Int32Array(new SharedArrayBuffer(CELL_COUNT * Int32Array.BYTES_PER_ELEMENT));
  const workerData: SamplingThreadData = { cells };
  const worker = new Worker(workerPath, { workerData, resourceLimits: THREAD_LIMITS, env: {}, argv: [] });
  return { worker, cells, beat: 0, reading: 0, movedMs: nowMs };
}

/** Whether the thread got on since it was last looked at; what it reads now is noted. */
function hasMoved(thread: SamplingThread): boolean {
  const beat = Atomics.load(thread.cells, BEAT_CELL);
  const reading = Atomics.load(thread.cells, READING_CELL);
  const moved = beat !== thread.beat || reading !== thread.reading;
  thread.beat = beat;
  thread.reading = reading;
  return moved;
}

function sameMarks(left: Marks, right: Marks): boolean {
  return left.nextExtendUsedBytes === right.nextExtendUsedBytes && left.minAvailableBytes === right.minAvailableBytes;
}
