// Waiting for a promise, with an end: what is stuck in the kernel or behind a silent connection never rejects by itself, and must not block
// others that need its place.

/**
 * What the work gives, or what `late` gives or throws once the limit is over: only the caller knows the words for what it waited for. The
 * work itself goes on; its late result is dropped.
 */
export async function withTimeLimit<T>(
  work: Promise<T>,
  limitMs: number,
  late: (limitMs: number) => NoInfer<T>,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, limitMs);
  });
  try {
    return await Promise.race([work, over.then(() => late(limitMs))]);
  } finally {
    clearTimeout(timer);
  }
}

/** What the work gives, or what `instead` gives or throws once the signal aborts. The work itself goes on; its late result is dropped. */
export async function unlessAborted<T, I = undefined>(
  work: Promise<T>,
  signal: AbortSignal,
  instead: (reason: unknown) => I = () => undefined as I,
): Promise<T | I> {
  let stop = (): void => undefined;
  const aborted = new Promise<void>((resolve) => {
    stop = resolve;
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
  try {
    return await Promise.race([work, aborted.then(() => instead(signal.reason))]);
  } finally {
    signal.removeEventListener("abort", stop); // a shrink of many steps waits with one signal many times
  }
}
