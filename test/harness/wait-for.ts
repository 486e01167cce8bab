// Waiting for a condition of the world, as tests must: generously, and with a message that says what was there instead.
import { setTimeout as sleep } from "node:timers/promises";

const LIMIT_MS = 120_000;
const INTERVAL_MS = 20;

/** The first value of `look` that is not undefined. What `look` throws meanwhile is told when the time is up. */
export async function waitFor<T>(
  what: string,
  look: () => T | undefined | Promise<T | undefined>,
  { limitMs = LIMIT_MS, intervalMs = INTERVAL_MS, otherwise }: WaitOptions = {},
): Promise<T> {
  const deadlineMs = performance.now() + limitMs;
  let problem: unknown;
  for (;;) {
    try {
      const seen = await look();
      if (seen !== undefined) return seen;
    } catch (error) {
      problem = error;
    }
    if (performance.now() > deadlineMs) {
      const instead = (await otherwise?.()) ?? "";
      throw new Error(`waited ${limitMs} ms in vain for ${what}; ${instead}`, { cause: problem });
    }
    await sleep(intervalMs);
  }
}

export interface WaitOptions {
  readonly limitMs?: number;
  readonly intervalMs?: number;
  /** Describes what is there instead. */
  readonly otherwise?: () => string | Promise<string>;
}
