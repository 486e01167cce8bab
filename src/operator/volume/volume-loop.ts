// Runs the reconciler while this replica leads: every volume once when leadership begins, then each one that changes.
import { createWorkQueue, type WorkQueue } from "../../kube/work-queue.ts";
import type { Logger } from "../../process/log.ts";
import { reconcileVolume, type VolumeReconciling } from "./reconcile-volume.ts";

export interface VolumeLoop {
  /** Waits for the caches by itself: an object that was not listed yet is not missing. */
  begin(): void;
  /** Resolves when the runs under way have ended. */
  end(): Promise<void>;
}

const CONCURRENCY = 16;
/** A filesystem that fills waits for its target: the first repetitions come quickly. */
const BACK_OFF = { baseMs: 50, capMs: 60_000 };

export function createVolumeLoop(reconciling: VolumeReconciling, log: Logger): VolumeLoop {
  const { caches, metrics } = reconciling;
  let leading = false;
  let queue: WorkQueue | undefined;
  caches.onChange((handle) => queue?.add(handle));

  const beginSynced = (): void => {
    if (!leading || queue !== undefined) return;
    queue = createWorkQueue({
      name: "volumes",
      concurrency: CONCURRENCY,
      run: (handle) => reconcileVolume(reconciling, handle),
      log,
      backOff: BACK_OFF,
      observer: { ran: (durationMs, end) => metrics.reconciled(end, durationMs) },
    });
    for (const handle of caches.handles()) queue.add(handle);
  };

  return {
    begin: () => {
      leading = true;
      void caches.synced.then(beginSynced);
    },
    end: async () => {
      leading = false;
      const ending = queue;
      queue = undefined;
      await ending?.stop();
    },
  };
}
