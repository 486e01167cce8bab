// Waiting for time to pass, in one piece or look by look. Not by node:timers/promises, whose timers no test can move on.

/** Resolves after `delayMs`, or at once when `signal` aborts; never rejects. */
export function pause(delayMs: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted === true) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, delayMs);
    signal?.addEventListener("abort", end);
  });
}

/**
 * For the kernel, where it offers nothing to wait on. Resolves to whether `condition` came true within the limit; it is asked at least
 * once.
 */
export async function waitUntil(
  condition: () => boolean | Promise<boolean>,
  limitMs: number,
  intervalMs: number,
): Promise<boolean> {
  const deadlineMs = performance.now() + limitMs;
  while (!(await condition())) {
    if (performance.now() >= deadlineMs) return false;
    await pause(intervalMs);
  }
  return true;
}
