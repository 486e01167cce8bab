// A work queue that there is only while this replica leads: it begins with every key there is, and takes each that changes.

import { createWorkQueue, type WorkQueue, type WorkQueueOptions } from "../platform/kube/queue/work-queue.ts";
import { BACK_OFFS } from "../platform/process/async/back-off.ts";
import type { Logger } from "../platform/process/log.ts";
import type { OperatorMetrics } from "./metrics.ts";

/** What only the leading replica does. */
export interface Duty {
  /** Waits for the caches by itself: an object that was not listed yet is not missing. */
  begin(): void;
  /** Resolves when the runs under way have ended. */
  end(): Promise<void>;
}

export interface LedQueue extends Duty {
  /** Nothing while this replica does not lead: a beginning takes every key. */
  add(key: string): void;
  addAll(): void;
}

/** `keys` are asked for when `synced` has resolved. */
export function createLedQueue(
  { synced, keys }: { readonly synced: Promise<void>; readonly keys: () => Iterable<string> },
  options: WorkQueueOptions,
): LedQueue {
  let leading = false;
  let queue: WorkQueue | undefined;
  const addAll = (): void => {
    if (queue !== undefined) for (const key of keys()) queue.add(key);
  };
  const beginSynced = (): void => {
    if (!leading || queue !== undefined) return;
    queue = createWorkQueue(options);
    addAll();
  };
  return {
    add: (key) => queue?.add(key),
    addAll,
    begin: () => {
      leading = true;
      void synced.then(beginSynced);
    },
    end: async () => {
      leading = false;
      const ending = queue;
      queue = undefined;
      await ending?.stop();
    },
  };
}

/** The queue of a reconciler of volumes or claims, by their handles; each of its runs is counted. */
export function createReconcileQueue(
  { synced, handles }: { readonly synced: Promise<void>; readonly handles: () => Iterable<string> },
  work: Pick<WorkQueueOptions, "name" | "concurrency" | "run">,
  metrics: Pick<OperatorMetrics, "reconciled">,
  log: Logger,
): LedQueue {
  const observer: WorkQueueOptions["observer"] = { ran: (durationMs, end) => metrics.reconciled(end, durationMs) };
  return createLedQueue({ synced, keys: handles }, { ...work, log, backOff: BACK_OFFS.waited, observer });
}
