// A report of many objects is made in short turns: decisions come in between, and the lease is renewed.

/** Decisions wait no longer for a report. */
const TURN_MS = 10;

/** To be awaited before each piece of a report: lets others go first once its own turn has taken so long. */
export function createTurn(): () => Promise<void> {
  let sinceMs = performance.now();
  return async () => {
    if (performance.now() - sinceMs < TURN_MS) return;
    await new Promise((resolve) => setImmediate(resolve));
    sinceMs = performance.now();
  };
}
