// Waiting for something that takes several objects of a volume: looked at again whenever one of them changes, no polling, and
// never longer than a limit.
import type { VolumeCaches } from "./volume-caches.ts";

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
