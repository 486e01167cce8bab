// Volumes that are promised to a node by nothing but their claim: it names the node, and nothing there is asked to make them yet. One that is
// never made, as where its class is wrong, would take its room for ever; after a limit it takes none until somebody makes it.

export interface Promised {
  /** Whether the promise still counts. */
  isOpen(handle: string, nodeName: string, nowMs: number): boolean;
  /** The claim is bound or gone, or names no node any more. */
  end(handle: string): void;
  /** Those that time has ended since. */
  due(nowMs: number): readonly string[];
}

/** Some attempts of csi-provisioner, each of 60 s and up to 5 minutes apart. */
const PROMISE_LIMIT_MS = 600_000;

export function createPromised(): Promised {
  /** In order of age. */
  const open = new Map<string, { readonly nodeName: string; readonly sinceMs: number }>();
  /** The nodes of those that have ended. */
  const over = new Map<string, string>();
  return {
    isOpen: (handle, nodeName, nowMs) => {
      if (over.get(handle) === nodeName) return false;
      over.delete(handle);
      if (open.get(handle)?.nodeName !== nodeName) {
        open.delete(handle);
        open.set(handle, { nodeName, sinceMs: nowMs });
      }
      return true;
    },
    end: (handle) => {
      open.delete(handle);
      over.delete(handle);
    },
    due: (nowMs) => {
      const due: string[] = [];
      for (const [handle, { nodeName, sinceMs }] of open) {
        if (nowMs - sinceMs < PROMISE_LIMIT_MS) break;
        open.delete(handle);
        over.set(handle, nodeName);
        due.push(handle);
      }
      return due;
    },
  };
}
