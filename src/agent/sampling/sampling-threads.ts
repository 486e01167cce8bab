// The sampling thread as the main thread has it: one that works. One that ends is replaced; one that hangs in the kernel is left
// behind, since nothing can end it, and replaced. Should its filesystem ever answer, the thread left behind ends, which is how
// that is noticed.
import { Worker } from "node:worker_threads";
import type { Clock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import {
  BEAT_CELL,
  BEAT_INTERVAL_MS,
  CELL_COUNT,
  type FromSamplingThread,
  READING_CELL,
  type SamplingThreadData,
  type ToSamplingThread,
} from "./sampler-messages.ts";

type Tell = (message: ToSamplingThread) => void;

export interface SamplingThreads {
  /** Lost where no thread works: a new one is told everything. */
  readonly tell: Tell;
  stranded(): number;
  /** False when too many are left behind. */
  working(): boolean;
  stop(): Promise<void>;
}

export interface SamplingThreadsOptions {
  /** The bundled sampling thread. */
  readonly workerPath: string;
  /** A read that takes this long is one that never ends. */
  readonly hungAfterMs: number;
  readonly clock: Clock;
  readonly log: Logger;
  /** A new thread, which knows of no filesystem yet. */
  readonly started: (tell: Tell) => void;
  /** From the thread that works, never from one left behind. */
  readonly received: (message: FromSamplingThread) => void;
  /** The filesystem at this slot made the thread hang, or lets it go again. */
  readonly hung: (slot: number, hung: boolean) => void;
}

const WATCHDOG_INTERVAL_MS = 250;
/** Without a beat and without a read: the thread itself is stuck, or starved. */
const SILENT_AFTER_MS = BEAT_INTERVAL_MS * 5;
/** Each holds a few MiB for as long as its filesystem hangs. */
const STRANDED_THREADS_MAX = 32;
const THREAD_LIMITS = { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 4, stackSizeMb: 1 };

interface SamplingThread {
  readonly worker: Worker;
  readonly cells: Int32Array;
  beat: number;
  reading: number;
  /** When the cells last changed, monotonic. */
  movedMs: number;
}

export function createSamplingThreads(options: SamplingThreadsOptions): SamplingThreads {
  const { workerPath, hungAfterMs, clock, log } = options;
  let thread: SamplingThread | undefined;
  let restart: NodeJS.Timeout | undefined;
  let stranded = 0;
  let stopped = false;

  const tell: Tell = (message) => thread?.worker.postMessage(message);
  const start = (): void => {
    const started = openThread(workerPath, clock.monotonicMs());
    thread = started;
    restart = undefined;
    started.worker.on("message", (message: FromSamplingThread) => {
      if (started === thread) options.received(message);
    });
    started.worker.on("error", (err) => log.error({ err }, "the sampling thread failed"));
    started.worker.on("exit", () => {
      if (started !== thread || stopped) return;
      // It is gone, and so hangs nowhere, wherever it was when it ended.
      thread = undefined;
      restart = setTimeout(start, BEAT_INTERVAL_MS).unref();
    });
    options.started(tell);
  };
  const leaveBehind = ({ worker, reading }: SamplingThread): void => {
    stranded += 1;
    worker.unref();
    worker.once("exit", () => {
      stranded -= 1;
      setHung(reading, false);
    });
    void worker.terminate();
    thread = undefined;
    setHung(reading, true);
    if (stranded <= STRANDED_THREADS_MAX) start();
  };
  /** A thread that is stuck outside of any filesystem tells nothing about one. */
  const setHung = (reading: number, hung: boolean): void => {
    if (reading > 0) options.hung(reading - 1, hung);
  };
  const look = (): void => {
    if (thread !== undefined && !stopped && isStuck(thread, hungAfterMs, clock.monotonicMs())) leaveBehind(thread);
  };

  start();
  const watchdog = setInterval(look, WATCHDOG_INTERVAL_MS);
  return {
    tell,
    stranded: () => stranded,
    working: () => thread !== undefined || restart !== undefined,
    stop: async () => {
      stopped = true;
      clearInterval(watchdog);
      clearTimeout(restart);
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

function isStuck(thread: SamplingThread, hungAfterMs: number, nowMs: number): boolean {
  if (hasMoved(thread)) thread.movedMs = nowMs;
  return nowMs - thread.movedMs >= (thread.reading > 0 ? hungAfterMs : SILENT_AFTER_MS);
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
