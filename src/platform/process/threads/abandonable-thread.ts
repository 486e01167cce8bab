// A thread for what may hang in the kernel. Nothing can end one that hangs: it is left behind, and a caller that needs one opens another.
// Should the kernel ever answer, the thread left behind ends, which is how that is noticed. Two cells, shared with the main thread, say where
// it is: it writes them before and after everything that can block, so that the main thread sees what it hangs on although it cannot answer.
import { Worker } from "node:worker_threads";
import type { Clock } from "../clock.ts";
import type { Logger } from "../log.ts";

/** Of an Int32Array over shared memory. */
const CELL_COUNT = 2;
/** Changes whenever the thread gets on. */
const BEAT_CELL = 0;
/** The place that the thread is in; 0: none. */
const PLACE_CELL = 1;

/** A thread that works by itself beats at least this often. */
export const BEAT_INTERVAL_MS = 1000;

/** What a thread is given when it starts. */
export interface ThreadData {
  readonly cells: Int32Array;
}

export function beat(cells: Int32Array): void {
  Atomics.add(cells, BEAT_CELL, 1);
}

/** `place`: a number above 0 of what may block. */
export function inPlace<T>(cells: Int32Array, place: number, work: () => T): T {
  beat(cells);
  Atomics.store(cells, PLACE_CELL, place);
  try {
    return work();
  } finally {
    Atomics.store(cells, PLACE_CELL, 0);
  }
}

interface SeenCells {
  readonly beat: number;
  readonly place: number;
}

function lookAtCells(cells: Int32Array): SeenCells {
  return { beat: Atomics.load(cells, BEAT_CELL), place: Atomics.load(cells, PLACE_CELL) };
}

export interface AbandonableThread<To> {
  post(message: To): void;
  /**
   * Looks where the thread is: true when it has not moved for `hungAfterMs` within a place, or for five beats outside of any. A thread that
   * does not beat while it is idle is given `sinceMs`, on the monotonic clock: it was asked for something then.
   */
  isStuck(sinceMs?: number): boolean;
  /** Where the last look found it; 0: in no place. */
  place(): number;
  /** An idle thread that is not held lets the process end. It is held at first. */
  hold(held: boolean): void;
  /** Nothing is received from it after that. `answered` hears of its end, which may never come. */
  leave(answered: () => void): void;
  /** Only for one that does not hang: waits for its end. */
  end(): Promise<void>;
}

interface AbandonableThreadParts<From> {
  /** The bundled program of the thread; its workerData is ThreadData. */
  readonly workerPath: string;
  /** What takes this long is something that never ends. */
  readonly hungAfterMs: number;
  readonly clock: Clock;
  readonly log: Logger;
  /** Not called after the thread was left or ended. */
  readonly received: (message: From) => void;
  /** It has ended by itself, which it never should. */
  readonly died: () => void;
}

/** Without a beat and in no place: the thread itself is stuck, or starved. */
const SILENT_AFTER_MS = BEAT_INTERVAL_MS * 5;
const THREAD_LIMITS = { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 4, stackSizeMb: 1 };

export function openAbandonableThread<To, From>(parts: AbandonableThreadParts<From>): AbandonableThread<To> {
  const { workerPath, hungAfterMs, clock, log, received, died } = parts;
  const cells = new Int32Array(new SharedArrayBuffer(CELL_COUNT * Int32Array.BYTES_PER_ELEMENT));
  const workerData: ThreadData = { cells };
  const worker = new Worker(workerPath, { workerData, resourceLimits: THREAD_LIMITS, env: {}, argv: [] });
  let seen = { beat: 0, place: 0 };
  let movedMs = clock.monotonicMs();
  let isOurs = true;
  worker.on("message", (message: From) => {
    if (isOurs) received(message);
  });
  worker.on("error", (err) => log.error({ err }, "a thread failed"));
  worker.on("exit", () => {
    if (!isOurs) return;
    isOurs = false;
    died();
  });
  return {
    post: (message) => worker.postMessage(message),
    isStuck: (sinceMs = 0) => {
      const now = lookAtCells(cells);
      if (now.beat !== seen.beat || now.place !== seen.place) movedMs = clock.monotonicMs();
      seen = now;
      const stillMs = clock.monotonicMs() - Math.max(movedMs, sinceMs);
      return stillMs >= (seen.place > 0 ? hungAfterMs : SILENT_AFTER_MS);
    },
    place: () => seen.place,
    hold: (held) => (held ? worker.ref() : worker.unref()),
    leave: (answered) => {
      isOurs = false;
      worker.unref();
      worker.once("exit", answered);
      void worker.terminate();
    },
    end: async () => {
      isOurs = false;
      await worker.terminate();
    },
  };
}
