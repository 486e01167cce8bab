// Runs the reconciler while this replica leads: every volume once when leadership begins, then each one that changes.
import type { Logger } from "../../process/log.ts";
import { createLedQueue, type LedQueue } from "../led-queue.ts";
import { onClassGrowthChange } from "./growth-watch.ts";
import { reconcileVolume, type VolumeReconciling } from "./reconcile-volume.ts";

const CONCURRENCY = 16;
/** A filesystem that fills waits for its target: the first repetitions come quickly. */
const BACK_OFF = { baseMs: 50, capMs: 60_000 };

export function createVolumeLoop(reconciling: VolumeReconciling, log: Logger): LedQueue {
  const { caches, metrics } = reconciling;
  const queue = createLedQueue(
    { synced: caches.synced, keys: caches.handles },
    {
      name: "volumes",
      concurrency: CONCURRENCY,
      run: (handle) => reconcileVolume(reconciling, handle),
      log,
      backOff: BACK_OFF,
      observer: { ran: (durationMs, end) => metrics.reconciled(end, durationMs) },
    },
  );
  caches.onChange(queue.add);
  caches.onNodeLossChange(queue.add);
  onClassGrowthChange(caches.layouts, reconciling.clock, queue.add);
  return queue;
}
