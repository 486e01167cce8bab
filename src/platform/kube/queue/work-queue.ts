// Runs a reconciler over keys: each key at most once at a time, several keys at once, failures again after a back-off.
// It knows keys, never objects: a run reads what it needs, so that nothing stale waits in here. Its length is bounded by
// the number of distinct keys.

import { BACK_OFFS, type BackOff, backOffMs } from "../../process/async/back-off.ts";
import { type Clock, systemClock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import { KubeError } from "../kube-error.ts";

/** How a run ended that did not fail. Waiting is not a failure: it is "again after". */
export type Outcome = "done" | { readonly againAfterMs: number };

/** Something that repetition does not mend, e.g. wrong input. Reported once, run again only when the key is added again. */
export class TerminalError extends Error {
  override name = "TerminalError";
}

export interface WorkQueueOptions {
  /** Names the queue in logs. */
  readonly name: string;
  /** Runs at the same time, of different keys. */
  readonly concurrency: number;
  /** A throw is a failure, tried again after a back-off. */
  readonly run: (key: string) => Promise<Outcome>;
  readonly log: Logger;
  /** Must not throw. */
  readonly onTerminal?: (key: string, error: TerminalError) => void;
  readonly observer?: WorkQueueObserver;
  readonly backOff?: BackOff;
  readonly clock?: Clock;
}

/** For metrics: called synchronously, must not throw. */
interface WorkQueueObserver {
  ran(durationMs: number, end: "done" | "again" | "failed" | "terminal"): void;
}

export interface WorkQueue {
  /** Runs the key soon. During its run: once more after it. Replaces a later time that the key waits for. */
  add(key: string): void;
  /** Runs the key after a while; of several times the earliest holds. */
  addAfter(key: string, delayMs: number): void;
  /** Keys that wait to be run now. */
  depth(): number;
  /** Starts nothing more, and resolves when the runs under way have ended. What waits is dropped: a start reads everything again. */
  stop(): Promise<void>;
}

export function createWorkQueue(options: WorkQueueOptions): WorkQueue {
  const { concurrency, observer, run } = options;
  const clock = options.clock ?? systemClock;
  const backOff = options.backOff ?? BACK_OFFS.other;
  const settle = createSettlement(options, backOff);
  const schedule = createKeySchedule(clock, (key) => add(key));
  const running = new Map<string, Promise<void>>();
  const addedDuringRun = new Set<string>();
  let startingSoon = false;
  let stopped = false;

  const add = (key: string): void => {
    if (stopped) return;
    if (running.has(key)) addedDuringRun.add(key);
    else schedule.now(key);
    startRunsSoon();
  };
  const addAfter = (key: string, delayMs: number): void => {
    if (delayMs <= 0) add(key);
    else if (!stopped) schedule.after(key, delayMs);
  };
  /** After the present turn: what a burst of events adds together then runs once. */
  const startRunsSoon = (): void => {
    if (startingSoon) return;
    startingSoon = true;
    void Promise.resolve().then(startRuns);
  };
  const startRuns = (): void => {
    startingSoon = false;
    while (!stopped && running.size < concurrency) {
      const key = schedule.take();
      if (key === undefined) break;
      running.set(key, runOnce(key));
    }
  };
  const runOnce = async (key: string): Promise<void> => {
    const startedMs = clock.monotonicMs();
    const end = await runSafely(run, key);
    const nextMs = settle(key, end);
    observer?.ran(clock.monotonicMs() - startedMs, end.kind);
    running.delete(key);
    const added = addedDuringRun.delete(key);
    // What arrived during a failed run waits a little as well: the run itself may have caused it.
    if (added) addAfter(key, end.kind === "failed" ? Math.min(nextMs ?? 0, backOff.baseMs) : 0);
    else if (nextMs !== undefined) addAfter(key, nextMs);
    startRuns();
  };

  return {
    add,
    addAfter,
    depth: () => schedule.ready(),
    stop: async () => {
      stopped = true;
      schedule.clear();
      await Promise.all(running.values());
    },
  };
}

type RunEnd =
  | { readonly kind: "done" }
  | { readonly kind: "again"; readonly againAfterMs: number }
  | { readonly kind: "terminal"; readonly error: TerminalError }
  | { readonly kind: "failed"; readonly error: unknown };

async function runSafely(run: (key: string) => Promise<Outcome>, key: string): Promise<RunEnd> {
  try {
    await Promise.resolve(); // the key is on record as running before its run can add it again
    const outcome = await run(key);
    return outcome === "done" ? { kind: "done" } : { kind: "again", againAfterMs: outcome.againAfterMs };
  } catch (error) {
    return error instanceof TerminalError ? { kind: "terminal", error } : { kind: "failed", error };
  }
}

/** Keeps account of failures in a row, and says in how many milliseconds a key runs again; undefined: not by itself. */
function createSettlement({ name, log, onTerminal }: WorkQueueOptions, backOff: BackOff) {
  const failuresOf = new Map<string, number>();
  const settleFailure = (key: string, error: unknown): number => {
    const failures = (failuresOf.get(key) ?? 0) + 1;
    failuresOf.set(key, failures);
    const waitMs = Math.max(backOffMs(failures, backOff, Math.random()), retryAfterMs(error, backOff));
    log.warn({ queue: name, key, failures, waitMs, err: error }, "failed; trying again");
    return waitMs;
  };
  return (key: string, end: RunEnd): number | undefined => {
    if (end.kind === "failed") return settleFailure(key, end.error);
    failuresOf.delete(key);
    if (end.kind === "again") return end.againAfterMs;
    if (end.kind === "terminal") {
      log.error({ queue: name, key, err: end.error }, "not tried again: it cannot succeed as things are");
      onTerminal?.(key, end.error);
    }
    return undefined;
  };
}

function retryAfterMs(error: unknown, backOff: BackOff): number {
  return error instanceof KubeError ? Math.min(error.retryAfterMs ?? 0, backOff.capMs) : 0;
}

/**
 * Which keys are ready, in order, and which become ready at a time. Each key is in it at most once: the earliest time holds. It starts
 * nothing.
 */
interface KeySchedule {
  /** Puts the key at the end of those that are ready, unless it is one of them. */
  now(key: string): void;
  /** Makes the key due after a while, unless it is ready or due earlier. */
  after(key: string, delayMs: number): void;
  /** The next ready key, which then is no longer in the schedule. */
  take(): string | undefined;
  /** Keys that are ready. */
  ready(): number;
  clear(): void;
}

/** Waits longer than a timer can count are checked again in between. */
const TIMER_LIMIT_MS = 2 ** 31 - 1;
/** Taken keys are cut off the front of the line in batches: shift() on a long array copies it each time. */
const TAKEN_BATCH = 1024;

/** `becameDue` is called when a key's time has come; it is no longer in the schedule then. */
function createKeySchedule(clock: Clock, becameDue: (key: string) => void): KeySchedule {
  const waiting = new Map<string, { readonly dueMs: number; readonly timer: NodeJS.Timeout }>();
  const members = new Set<string>();
  let line: string[] = [];
  let taken = 0;

  const cancel = (key: string): void => {
    clearTimeout(waiting.get(key)?.timer);
    waiting.delete(key);
  };
  return {
    now: (key) => {
      cancel(key);
      if (members.has(key)) return;
      members.add(key);
      line.push(key);
    },
    after: (key, delayMs) => {
      const waitMs = Math.min(Math.max(delayMs, 0), TIMER_LIMIT_MS);
      const dueMs = clock.monotonicMs() + waitMs;
      const earlier = waiting.get(key);
      if (members.has(key) || (earlier !== undefined && earlier.dueMs <= dueMs)) return;
      cancel(key);
      const timer = setTimeout(() => {
        waiting.delete(key);
        becameDue(key);
      }, waitMs);
      waiting.set(key, { dueMs, timer });
    },
    take: () => {
      const key = line[taken];
      if (key === undefined) return undefined;
      taken += 1;
      if (taken >= TAKEN_BATCH) {
        line = line.slice(taken);
        taken = 0;
      }
      members.delete(key);
      return key;
    },
    ready: () => members.size,
    clear: () => {
      for (const key of [...waiting.keys()]) cancel(key);
      members.clear();
      line = [];
      taken = 0;
    },
  };
}
