// One write at a time for each volume: who asks during one shares the next, which says what is known by then. It knows nothing of what
// is written.

export interface SharedWrites {
  /** Resolves when a write that began after the call has ended; rejects as that write does. */
  next(handle: string): Promise<void>;
  /** Writes otherwise, once none is under way: what knows less must not come after it. */
  instead(handle: string, write: () => Promise<void>): Promise<void>;
}

export function createSharedWrites(write: (handle: string) => Promise<void>): SharedWrites {
  const writing = new Map<string, Promise<void>>();
  const waiting = new Map<string, Promise<void>>();
  const begin = (handle: string, work: () => Promise<void>): Promise<void> => {
    const begun = work().finally(() => writing.delete(handle));
    writing.set(handle, begun);
    return begun;
  };
  const next = (handle: string): Promise<void> => {
    const underWay = writing.get(handle);
    if (underWay === undefined) return begin(handle, () => write(handle));
    const shared =
      waiting.get(handle) ??
      underWay
        .catch(() => {})
        .then(() => {
          waiting.delete(handle);
          return next(handle);
        });
    waiting.set(handle, shared);
    return shared;
  };
  return {
    next,
    instead: async (handle, work) => {
      for (let other = writing.get(handle); other !== undefined; other = writing.get(handle))
        await other.catch(() => {});
      await begin(handle, work);
    },
  };
}
