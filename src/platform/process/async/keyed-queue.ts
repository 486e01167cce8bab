// One piece of work at a time for each key, in the order in which they came; those of different keys never wait for each other. It knows
// nothing of what the work does.

/** The line of a key is full: callers of what hangs keep coming back. */
export class QueueFullError extends Error {
  override name = "QueueFullError";

  constructor(
    readonly key: string,
    readonly limit: number,
  ) {
    super(`${limit} calls wait for their turn in ${key} already`);
  }
}

export interface KeyedQueue {
  /** Runs after all that was given before under this key, however that ended. Rejects with QueueFullError. */
  run<T>(key: string, work: () => Promise<T>): Promise<T>;
  /** Whether what is run now under this key would have to wait; without a key: whether anything runs or waits. */
  isBusy(key?: string): boolean;
}

/** `limit`: of what runs and waits under one key. */
export function createKeyedQueue(limit = Number.POSITIVE_INFINITY): KeyedQueue {
  const lines = new Map<string, { tail: Promise<unknown>; length: number }>();
  return {
    isBusy: (key) => (key === undefined ? lines.size > 0 : lines.has(key)),
    run: (key, work) => {
      const line = lines.get(key) ?? { tail: Promise.resolve(), length: 0 };
      if (line.length >= limit) return Promise.reject(new QueueFullError(key, limit));
      lines.set(key, line);
      line.length += 1;
      const turn = line.tail.then(work).finally(() => {
        line.length -= 1;
        if (line.length === 0) lines.delete(key);
      });
      line.tail = turn.catch(() => undefined);
      return turn;
    },
  };
}
