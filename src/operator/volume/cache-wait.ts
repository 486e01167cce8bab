// Waiting for a change that a cache sees, by watch: no polling, and never longer than a limit. What the cache shows already is the
// caller's to look at first, in the same turn.

import type { Reflector } from "../../kube/cache/reflector.ts";
import type { KubeObject } from "../../kube/object.ts";

/**
 * Resolves at the next change of the object of this name for which it `holds` (undefined: it was deleted), and after `limitMs` in any
 * case.
 */
export type CacheWait<T> = (name: string, holds: (object: T | undefined) => boolean, limitMs: number) => Promise<void>;

/** Calls that wait at the same time; more get the object as it is at once. */
const WAITERS_LIMIT = 1000;

export function createCacheWait<T extends KubeObject>(reflector: Reflector<T>): CacheWait<T> {
  const waiters = new Map<string, Set<(object: T | undefined) => void>>();
  let waiting = 0;
  const tell = (name: string, object: T | undefined): void => {
    for (const waiter of waiters.get(name) ?? []) waiter(object);
  };
  reflector.subscribe({
    added: (object) => tell(object.metadata.name, object),
    updated: (object) => tell(object.metadata.name, object),
    deleted: (object) => tell(object.metadata.name, undefined),
  });

  return async (name, holds, limitMs) => {
    if (waiting >= WAITERS_LIMIT) return;
    await new Promise<void>((resolve) => {
      const all = waiters.get(name) ?? new Set();
      const end = (): void => {
        clearTimeout(timer);
        waiting -= 1;
        all.delete(waiter);
        if (all.size === 0) waiters.delete(name);
        resolve();
      };
      const waiter = (object: T | undefined): void => {
        if (holds(object)) end();
      };
      // Whoever waits is answered over a socket: without one nobody does.
      const timer = setTimeout(end, limitMs).unref();
      waiting += 1;
      waiters.set(name, all.add(waiter));
    });
  };
}
