// Which filesystems' members are merged now, and for whom: so that one of a node is at a time, and one for a pod. Every replica follows what
// goes on; what was begun a moment ago only the one knows that has begun it.
import type { Filesystem } from "../../api/filesystem.ts";
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import type { ReadableStore } from "../../kube/cache/store.ts";
import { isInTheWay, isMerging, type NodeMerge } from "./under-way.ts";

export interface MergeTurns {
  /** The layout was seen as it is now. Says whom its merge was for where that has ended by it. `pod`: who waits for it, as far as is known. */
  follow(
    layout: FilesystemLayout,
    filesystem: Filesystem | undefined,
    pod: string | undefined,
  ): { readonly endedFor: string | undefined } | undefined;
  /** The layout is gone. */
  forget(handle: string): void;
  isFree(wanted: NodeMerge, nowMs: number): boolean;
  begin(merge: NodeMerge, nowMs: number): void;
  /** Who waits for what is merged; undefined: nobody knows, or it is not merged. */
  podOf(handle: string): string | undefined;
}

/** A cache shows what was begun well before. */
const BEGINNING_MS = 10_000;

export function createMergeTurns(layouts: ReadableStore<FilesystemLayout>): MergeTurns {
  /** By handle. */
  const begun = new Map<string, NodeMerge & { readonly atMs: number }>();
  /** Who waits for what is merged now, by handle. */
  const merging = new Map<string, string | undefined>();

  const underWay = (nowMs: number): NodeMerge[] => {
    for (const [handle, { atMs }] of begun) if (nowMs - atMs >= BEGINNING_MS) begun.delete(handle);
    return [
      ...begun.values(),
      ...[...merging].map(([handle, pod]) => ({ handle, node: layouts.get(handle)?.spec.nodeName, pod })),
    ];
  };
  return {
    follow: (layout, filesystem, pod) => {
      const handle = layout.metadata.name;
      const wasMerging = merging.has(handle);
      if (isMerging(layout, filesystem)) {
        if (!wasMerging) merging.set(handle, pod);
        return undefined;
      }
      const endedFor = merging.get(handle);
      merging.delete(handle);
      return wasMerging ? { endedFor } : undefined;
    },
    forget: (handle) => void merging.delete(handle),
    isFree: (wanted, nowMs) => !underWay(nowMs).some((one) => isInTheWay(one, wanted)),
    begin: (merge, nowMs) => void begun.set(merge.handle, { ...merge, atMs: nowMs }),
    podOf: (handle) => merging.get(handle),
  };
}
