// Volumes that are promised to a node by nothing but their claim: it names the node, and nothing there is asked to make them yet. One that is
// never made, as where its class is wrong, would take its room for ever; after a limit it takes none until somebody makes it.

export interface Promised {
  /** Whether the promise still counts. */
  isOpen(handle: string, nodeName: string, nowMs: number): boolean;
  /** The claim is bound or gone, or names no node any more. */
  end(handle: string): void;
  /** Those that are promised to the node, and whose time has not ended. */
  on(nodeName: string): Iterable<string>;
  /** Those that time has ended since. */
  due(nowMs: number): readonly string[];
}

/** Some attempts of csi-provisioner, each of 60 s and up to 5 minutes apart. */
const PROMISE_LIMIT_MS = 600_000;

export function createPromised(): Promised {
  /** In order of age. */
  const open = new Map<string, { readonly nodeName: string; readonly sinceMs: number }>();
  /** The same by node. */
  const onNodes = new Map<string, Set<string>>();
  /** The nodes of those that have ended. */
  const over = new Map<string, string>();
  const close = (handle: string): void => {
    const nodeName = open.get(handle)?.nodeName ?? "";
    open.delete(handle);
    const handles = onNodes.get(nodeName);
    handles?.delete(handle);
    if (handles?.size === 0) onNodes.delete(nodeName);
  };
  return {
    isOpen: (handle, nodeName, nowMs) => {
      if (over.get(handle) === nodeName) return false;
      over.delete(handle);
      if (open.get(handle)?.nodeName !== nodeName) {
        close(handle);
        open.set(handle, { nodeName, sinceMs: nowMs });
        onNodes.set(nodeName, (onNodes.get(nodeName) ?? new Set()).add(handle));
      }
      return true;
    },
    end: (handle) => {
      close(handle);
      over.delete(handle);
    },
    on: (nodeName) => onNodes.get(nodeName) ?? [],
    due: (nowMs) => {
      const due: string[] = [];
      for (const [handle, { nodeName, sinceMs }] of open) {
        if (nowMs - sinceMs < PROMISE_LIMIT_MS) break;
        close(handle);
        over.set(handle, nodeName);
        due.push(handle);
      }
      return due;
    },
  };
}
