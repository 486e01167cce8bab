// Waiting by the caches, with a limit and without polling: for what one layout or another object says, and for something that takes
// several objects of a volume, which is checked again whenever one of them changes.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../contracts/kinds/filesystem-layout.ts";
import type { KubeObject } from "../../contracts/kubernetes/object.ts";
import type { Reflector } from "../../platform/kube/cache/reflector.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { isBlank } from "../decide/layout-facts.ts";
import type { VolumeCaches } from "./volume-caches.ts";

export interface LayoutWatch {
  /**
   * The layout once `holds`, or as it is after `limitMs`; undefined when it was deleted. `layout` is its latest known
   * version.
   */
  until(
    layout: FilesystemLayout,
    holds: (layout: FilesystemLayout) => boolean,
    limitMs: number,
  ): Promise<FilesystemLayout | undefined>;
  /** Resolves when this replica's cache shows that the layout is there, filled in, or is not; after `limitMs` in any case. */
  untilCached(handle: string, isThere: boolean, limitMs: number): Promise<void>;
}

export function createLayoutWatch(client: KubeClient, reflector: Reflector<FilesystemLayout>): LayoutWatch {
  const wait = createCacheWait(reflector);
  return {
    until: async (layout, holds, limitMs) => {
      if (holds(layout)) return layout;
      const { name } = layout.metadata;
      const seen = reflector.store.get(name);
      const seenAlready = seen !== undefined && seen.metadata.uid === layout.metadata.uid && holds(seen);
      if (!seenAlready) await wait(name, (one) => one === undefined || holds(one), limitMs);
      // The store may be behind or ahead of the caller: what is answered is read.
      return client.get(FILESYSTEM_LAYOUTS, { name });
    },
    untilCached: async (handle, isThere, limitMs) => {
      const isShown = (layout: FilesystemLayout | undefined): boolean =>
        isThere ? layout !== undefined && !isBlank(layout) : layout === undefined;
      if (!isShown(reflector.store.get(handle))) await wait(handle, isShown, limitMs);
    },
  };
}

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
      // The caller waits for the answer on an open socket, which keeps the process alive: without a socket no caller
      // waits.
      const timer = setTimeout(end, limitMs).unref();
      waiting += 1;
      waiters.set(name, all.add(waiter));
    });
  };
}

export interface VolumeChanges {
  /**
   * Looks until nothing is left to wait for, or until `limitMs` have passed. Returns undefined, or what the last look waited
   * for. `look` reads what it needs; a change while it reads makes it look again.
   */
  until(handle: string, look: () => Promise<string | undefined>, limitMs: number): Promise<string | undefined>;
}

export function createVolumeChanges(caches: Pick<VolumeCaches, "onChange">): VolumeChanges {
  const wakers = new Map<string, Set<() => void>>();
  caches.onChange((handle) => {
    for (const wake of wakers.get(handle) ?? []) wake();
  });
  const next = (handle: string, limitMs: number): { readonly change: Promise<void>; readonly cancel: () => void } => {
    let cancel = (): void => {};
    const change = new Promise<void>((resolve) => {
      const all = wakers.get(handle) ?? new Set<() => void>();
      const timer = setTimeout(() => cancel(), limitMs);
      cancel = () => {
        clearTimeout(timer);
        all.delete(cancel);
        if (all.size === 0) wakers.delete(handle);
        resolve();
      };
      wakers.set(handle, all.add(cancel));
    });
    return { change, cancel };
  };
  return {
    until: async (handle, look, limitMs) => {
      const deadlineMs = performance.now() + limitMs;
      for (;;) {
        const { change, cancel } = next(handle, Math.max(0, deadlineMs - performance.now()));
        const left = await look().catch((error: unknown) => {
          cancel();
          throw error;
        });
        if (left === undefined || performance.now() >= deadlineMs) {
          cancel();
          return left;
        }
        await change;
      }
    },
  };
}
