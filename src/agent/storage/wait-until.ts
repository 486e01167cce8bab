// Waiting for the kernel where it offers nothing to wait on: short polls, with an end.
import { setTimeout as pause } from "node:timers/promises";

/** Resolves to whether `condition` came true within the limit; it is asked at least once. */
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
