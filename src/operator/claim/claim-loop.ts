// Runs the reconciler of ordinary claims while this replica leads: every claim once when leadership begins, and each that changes.
import { createWorkQueue, type WorkQueue } from "../../kube/work-queue.ts";
import type { Logger } from "../../process/log.ts";
import type { OperatorMetrics } from "../metrics.ts";
import { type ClaimReconciling, reconcileClaim } from "./reconcile-claim.ts";

export interface ClaimLoop {
  /** Waits for the caches by itself. */
  begin(): void;
  end(): Promise<void>;
}

const CONCURRENCY = 8;
const BACK_OFF = { baseMs: 50, capMs: 60_000 };

export function createClaimLoop(reconciling: ClaimReconciling, metrics: OperatorMetrics, log: Logger): ClaimLoop {
  const { caches } = reconciling;
  let leading = false;
  let queue: WorkQueue | undefined;
  const addAll = (): void => {
    if (queue !== undefined) for (const handle of caches.handles()) queue.add(handle);
  };
  caches.onChange((handle) => queue?.add(handle), addAll);
  const beginSynced = (): void => {
    if (!leading || queue !== undefined) return;
    queue = createWorkQueue({
      name: "claims",
      concurrency: CONCURRENCY,
      run: (handle) => reconcileClaim(reconciling, handle),
      log,
      backOff: BACK_OFF,
      observer: { ran: (durationMs, end) => metrics.reconciled(end, durationMs) },
    });
    addAll();
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
