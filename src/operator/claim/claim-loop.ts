// Runs the reconciler of ordinary claims while this replica leads: every claim once when leadership begins, and each that changes.
import type { Logger } from "../../process/log.ts";
import { createLedQueue, type Duty } from "../led-queue.ts";
import type { OperatorMetrics } from "../metrics.ts";
import { type ClaimReconciling, reconcileClaim } from "./reconcile-claim.ts";

const CONCURRENCY = 8;
const BACK_OFF = { baseMs: 50, capMs: 60_000 };

export function createClaimLoop(reconciling: ClaimReconciling, metrics: OperatorMetrics, log: Logger): Duty {
  const { caches } = reconciling;
  const queue = createLedQueue(
    { synced: caches.synced, keys: caches.handles },
    {
      name: "claims",
      concurrency: CONCURRENCY,
      run: (handle) => reconcileClaim(reconciling, handle),
      log,
      backOff: BACK_OFF,
      observer: { ran: (durationMs, end) => metrics.reconciled(end, durationMs) },
    },
  );
  caches.onChange(queue.add, queue.addAll);
  return queue;
}
