// Volumes that their nodes have made a moment ago, and whose nodes may not show that yet in what they report as free: from the one to the
// other they still count as reserved.
import type { ClusterStores } from "../gather/cluster-stores.ts";

export interface Settling {
  /** The node's figures were seen to change. */
  reported(nodeName: string, nowMs: number): void;
  /** Whether what the node reports may not show the volume that it has made. `wasTaken`: it was reserved until now. */
  isOpen(handle: string, nodeName: string, wasTaken: boolean, nowMs: number): boolean;
  /** Volumes of the node that its next report may show. */
  openOn(nodeName: string): Iterable<string>;
  /** Those that time alone has settled. */
  due(nowMs: number): Iterable<string>;
  expire(nowMs: number): void;
  /** The node is gone, and so are its figures. */
  forget(nodeName: string): void;
}

/** After a node has made or extended a volume, its own figures show it within this. */
export const SETTLING_LIMIT_MS = 15_000;
/** A report that comes later than this after the volume was seen has counted it: agents report within half a second of a change. */
export const REPORT_DELAY_MS = 300;

export function createSettling(stores: Pick<ClusterStores, "logicalVolumes" | "layouts">): Settling {
  const reportedMs = new Map<string, number>();
  /** In order of age. */
  const settling = new Map<string, { readonly nodeName: string; readonly sinceMs: number; isShown: boolean }>();
  const open = new Map<string, Set<string>>();
  const close = (handle: string, nodeName: string): void => {
    const handles = open.get(nodeName);
    handles?.delete(handle);
    if (handles?.size === 0) open.delete(nodeName);
  };
  function* due(nowMs: number): Generator<string> {
    for (const [handle, { sinceMs }] of settling) {
      if (nowMs - sinceMs < SETTLING_LIMIT_MS) return;
      yield handle;
    }
  }
  return {
    reported: (nodeName, nowMs) => reportedMs.set(nodeName, nowMs),
    isOpen: (handle, nodeName, wasTaken, nowMs) => {
      const one = settling.get(handle);
      if (one === undefined) {
        // Of those that were there before this process began, only new ones can be too new for the reports.
        if (!wasTaken && nowMs - createdMs(handle, stores) >= SETTLING_LIMIT_MS) return false;
        settling.set(handle, { nodeName, sinceMs: nowMs, isShown: false });
        open.set(nodeName, (open.get(nodeName) ?? new Set()).add(handle));
        return true;
      }
      one.isShown ||= (reportedMs.get(nodeName) ?? 0) >= one.sinceMs + REPORT_DELAY_MS;
      if (one.isShown) close(handle, one.nodeName);
      return !one.isShown && nowMs - one.sinceMs < SETTLING_LIMIT_MS;
    },
    openOn: (nodeName) => open.get(nodeName) ?? [],
    due,
    expire: (nowMs) => {
      for (const handle of due(nowMs)) {
        close(handle, settling.get(handle)?.nodeName ?? "");
        settling.delete(handle);
      }
    },
    forget: (nodeName) => reportedMs.delete(nodeName),
  };
}

/** 0: nobody can tell. */
function createdMs(handle: string, { logicalVolumes, layouts }: Pick<ClusterStores, "logicalVolumes" | "layouts">) {
  const { metadata } = logicalVolumes.get(handle) ?? layouts.get(handle) ?? {};
  return Date.parse(metadata?.creationTimestamp ?? "") || 0;
}
