// Waiting for a condition of the world, as tests must: generously, and with a message that says what was there instead.
import { setTimeout as sleep } from "node:timers/promises";

const LIMIT_MS = 120_000;
const INTERVAL_MIN_MS = 10;
const INTERVAL_MAX_MS = 200;

/** The first value of `look` that is not undefined. What `look` throws meanwhile is told when the time is up. */
export async function waitFor<T>(
  what: string,
  look: () => T | undefined | Promise<T | undefined>,
  { limitMs = LIMIT_MS, intervalMs, otherwise }: WaitOptions = {},
): Promise<T> {
  const beganMs = performance.now();
  let problem: unknown;
  for (;;) {
    try {
      const seen = await look();
      if (seen !== undefined) return seen;
    } catch (error) {
      problem = error;
    }
    const waitedMs = performance.now() - beganMs;
    if (waitedMs > limitMs) {
      const instead = (await otherwise?.()) ?? "";
      throw new Error(`waited ${limitMs} ms in vain for ${what}; ${instead}`, { cause: problem });
    }
    await (intervalMs === undefined ? untilNextLook(waitedMs) : sleep(intervalMs));
  }
}

/** A tenth of what was waited so far: a look is a call or a command, which takes the cores from what is waited for. */
export function untilNextLook(waitedMs: number): Promise<void> {
  return sleep(Math.min(Math.max(waitedMs / 10, INTERVAL_MIN_MS), INTERVAL_MAX_MS));
}

export interface WaitOptions {
  readonly limitMs?: number;
  /** Between two looks, for what is there for an instant only. */
  readonly intervalMs?: number;
  /** Describes what is there instead. */
  readonly otherwise?: () => string | Promise<string>;
}
