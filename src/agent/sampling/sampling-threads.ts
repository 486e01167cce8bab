// The sampling thread as the main thread has it: one that works. One that ends is replaced; one that hangs in the kernel is left
// behind, and replaced. When its filesystem answers, the thread left behind ends: that is how it is noticed.
import type { Clock } from "../../platform/process/clock.ts";
import type { Logger } from "../../platform/process/log.ts";
import {
  type AbandonableThread,
  BEAT_INTERVAL_MS,
  openAbandonableThread,
} from "../../platform/process/threads/abandonable-thread.ts";
import type { FromSamplingThread, ToSamplingThread } from "./sampler-messages.ts";

type Tell = (message: ToSamplingThread) => void;

export interface SamplingThreads {
  /** The message is lost where no thread works: a new thread gets everything from the start. */
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
/** Each holds a few MiB for as long as its filesystem hangs. */
const STRANDED_THREADS_MAX = 32;

export function createSamplingThreads(options: SamplingThreadsOptions): SamplingThreads {
  const { workerPath, hungAfterMs, clock, log } = options;
  let thread: AbandonableThread<ToSamplingThread> | undefined;
  let restart: NodeJS.Timeout | undefined;
  let stranded = 0;
  let stopped = false;

  const tell: Tell = (message) => thread?.post(message);
  const start = (): void => {
    restart = undefined;
    thread = openAbandonableThread<ToSamplingThread, FromSamplingThread>({
      workerPath,
      hungAfterMs,
      clock,
      log,
      received: options.received,
      died: () => {
        // It is gone, and so hangs nowhere, wherever it was when it ended.
        thread = undefined;
        if (!stopped) restart = setTimeout(start, BEAT_INTERVAL_MS).unref();
      },
    });
    options.started(tell);
  };
  /** A thread that is stuck outside of any filesystem says nothing about one. */
  const setHung = (place: number, hung: boolean): void => {
    if (place > 0) options.hung(place - 1, hung);
  };
  const leaveBehind = (stuck: AbandonableThread<ToSamplingThread>): void => {
    const place = stuck.place();
    stranded += 1;
    stuck.leave(() => {
      stranded -= 1;
      setHung(place, false);
    });
    thread = undefined;
    setHung(place, true);
    if (stranded <= STRANDED_THREADS_MAX) start();
  };
  const look = (): void => {
    if (thread !== undefined && !stopped && thread.isStuck()) leaveBehind(thread);
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
      await thread?.end();
    },
  };
}
