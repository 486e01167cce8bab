// Which keys are ready, in order, and which become ready at a time. Each key is in it at most once: of several times the
// earliest holds. It starts nothing.
import type { Clock } from "../../process/clock.ts";

export interface KeySchedule {
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

/** Longer waits than a timer can count are looked at again in between. */
const TIMER_LIMIT_MS = 2 ** 31 - 1;
/** Taken keys are cut off the front of the line in batches: shift() on a long array copies it each time. */
const TAKEN_BATCH = 1024;

/** `becameDue` is called when a key's time has come; it is no longer in the schedule then. */
export function createKeySchedule(clock: Clock, becameDue: (key: string) => void): KeySchedule {
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
