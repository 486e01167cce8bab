// A work queue that there is only while this replica leads: it begins with every key there is, and takes each that changes.
import { createWorkQueue, type WorkQueue, type WorkQueueOptions } from "../kube/queue/work-queue.ts";

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
