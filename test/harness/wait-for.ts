// The one poll of all tests: it waits for a state of the world instead of for a time. The limit is generous, since it only ends a test that
// has failed; then the message says what did not come, and what was there last.
import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";

const LIMIT_MS = 120_000;
const INTERVAL_MIN_MS = 10;
const INTERVAL_MAX_MS = 200;
const SEEN_LENGTH_MAX = 4000;

/** The first value of `look` that is not undefined. An error of `look` ends no wait: the last one is the cause in the end. */
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
      problem = undefined;
    } catch (error) {
      problem = error;
    }
    const waitedMs = performance.now() - beganMs;
    if (waitedMs > limitMs) {
      const last =
        problem === undefined ? [] : [`the last look failed: ${inspect(problem, { depth: 0 }).split("\n", 1)[0]}`];
      const instead = [...last, ...(otherwise === undefined ? [] : [await otherwise()])].map((text) => `; ${text}`);
      throw new Error(`waited ${limitMs} ms in vain for ${what}${instead.join("")}`, { cause: problem });
    }
    await sleep(intervalMs ?? untilNextLookMs(waitedMs));
  }
}

/** Reads until what is read `holds`, and returns that. */
export async function untilRead<T>(
  what: string,
  read: () => T | Promise<T>,
  holds: (seen: T) => boolean,
  options: WaitOptions = {},
): Promise<T> {
  let last: { readonly seen: T } | undefined;
  const lastSeen = (): string => (JSON.stringify(last?.seen) ?? "undefined").slice(0, SEEN_LENGTH_MAX);
  const found = await waitFor(
    what,
    async () => {
      last = { seen: await read() };
      return holds(last.seen) ? last : undefined;
    },
    {
      ...options,
      otherwise: async () => `last seen: ${lastSeen()}${options.otherwise ? `; ${await options.otherwise()}` : ""}`,
    },
  );
  return found.seen;
}

/** Resolves once `holds` is true. */
export async function eventually(
  what: string,
  holds: () => boolean | Promise<boolean>,
  options: WaitOptions = {},
): Promise<void> {
  await waitFor(what, async () => (await holds()) || undefined, options);
}

/** A tenth of what was waited so far: a look is a call or a command, which takes the cores from what is waited for. */
function untilNextLookMs(waitedMs: number): number {
  return Math.min(Math.max(waitedMs / 10, INTERVAL_MIN_MS), INTERVAL_MAX_MS);
}

export interface WaitOptions {
  readonly limitMs?: number;
  /** Between two looks, for what is there for an instant only. */
  readonly intervalMs?: number;
  /** Describes what is there instead. */
  readonly otherwise?: () => string | Promise<string>;
}
