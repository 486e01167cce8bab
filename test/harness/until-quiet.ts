// The other wait of a test: for what may come or not, and has no state of the world that says that it has come.
import { setTimeout as sleep } from "node:timers/promises";
import type { DoomedProcess } from "./doomed-process.ts";

const LOOK_INTERVAL_MS = 20;

export interface QuietLimits {
  /** How long nothing is logged before nothing more is expected. */
  readonly quietMs: number;
  readonly limitMs: number;
}

/** Until `isOver`, or until none of them, alive, has logged anything for a while. It never fails: a slow one is cut short. */
export async function untilQuiet(
  doomed: readonly DoomedProcess[],
  { quietMs, limitMs }: QuietLimits,
  isOver: () => boolean = () => false,
): Promise<void> {
  const deadlineMs = performance.now() + limitMs;
  const bytes = (): number => doomed.reduce((sum, one) => sum + one.logBytes(), 0);
  let [seen, changedMs] = [-1, performance.now()];
  for (;;) {
    await Promise.all(doomed.map((one) => one.ready()));
    if (isOver()) return;
    if (bytes() !== seen) [seen, changedMs] = [bytes(), performance.now()];
    if (performance.now() > Math.min(deadlineMs, changedMs + quietMs)) return;
    await sleep(LOOK_INTERVAL_MS);
  }
}
