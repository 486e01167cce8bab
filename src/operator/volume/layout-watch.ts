// Waiting for a FilesystemLayout to say something, by watch: no polling, and never longer than a limit.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { KubeClient } from "../../kube/client.ts";
import type { Reflector } from "../../kube/reflector.ts";
import { isBlank } from "./layout-facts.ts";

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

/** Calls that wait at the same time; more get the layout as it is at once. */
const WAITERS_LIMIT = 1000;

type Waiter = (layout: FilesystemLayout | undefined) => void;

export function createLayoutWatch(client: KubeClient, reflector: Reflector<FilesystemLayout>): LayoutWatch {
  const waiters = new Map<string, Set<Waiter>>();
  let waiting = 0;
  const tell = (name: string, layout: FilesystemLayout | undefined): void => {
    for (const waiter of waiters.get(name) ?? []) waiter(layout);
  };
  reflector.subscribe({
    added: (layout) => tell(layout.metadata.name, layout),
    updated: (layout) => tell(layout.metadata.name, layout),
    deleted: (layout) => tell(layout.metadata.name, undefined),
  });

  const wait = (
    name: string,
    holds: (layout: FilesystemLayout | undefined) => boolean,
    limitMs: number,
  ): Promise<void> =>
    new Promise((resolve) => {
      const all = waiters.get(name) ?? new Set<Waiter>();
      const end = (): void => {
        clearTimeout(timer);
        waiting -= 1;
        all.delete(waiter);
        if (all.size === 0) waiters.delete(name);
        resolve();
      };
      const waiter: Waiter = (layout) => {
        if (holds(layout)) end();
      };
      const timer = setTimeout(end, limitMs);
      waiting += 1;
      waiters.set(name, all.add(waiter));
    });

  return {
    until: async (layout, holds, limitMs) => {
      if (holds(layout)) return layout;
      const { name } = layout.metadata;
      const seen = reflector.store.get(name);
      const seenAlready = seen !== undefined && seen.metadata.uid === layout.metadata.uid && holds(seen);
      if (!seenAlready && waiting < WAITERS_LIMIT) await wait(name, (one) => one === undefined || holds(one), limitMs);
      // The store may be behind or ahead of the caller: what is answered is read.
      return client.get(FILESYSTEM_LAYOUTS, { name });
    },
    untilCached: async (handle, isThere, limitMs) => {
      const isShown = (layout: FilesystemLayout | undefined): boolean =>
        isThere ? layout !== undefined && !isBlank(layout) : layout === undefined;
      const isShownAlready = isShown(reflector.store.get(handle));
      if (!isShownAlready && waiting < WAITERS_LIMIT) await wait(handle, isShown, limitMs);
    },
  };
}
