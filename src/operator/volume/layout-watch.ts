// Waiting for a FilesystemLayout to say something.
import { FILESYSTEM_LAYOUTS, type FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { Reflector } from "../../kube/cache/reflector.ts";
import type { KubeClient } from "../../kube/client/client.ts";
import { createCacheWait } from "./cache-wait.ts";
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
