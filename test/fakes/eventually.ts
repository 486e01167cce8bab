// Waits for a condition instead of for a time. The limit is generous: it only ends a test that has failed.

const LIMIT_MS = 120_000;
const LOOK_AGAIN_MS = 5;

/** Resolves once `holds` is true; rejects with `what` when that takes too long. */
export async function eventually(what: string, holds: () => boolean): Promise<void> {
  const deadlineMs = performance.now() + LIMIT_MS;
  while (!holds()) {
    if (performance.now() > deadlineMs) throw new Error(`waited ${LIMIT_MS} ms in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
  }
}
