// Decisions that share a quota, one after the other: what one of them has taken, the next one sees. In this process only; the
// reconciler runs in one.

export interface Turns {
  /** Runs when all that came before under this name have ended, however they ended. */
  take<T>(name: string, run: () => Promise<T>): Promise<T>;
}

export function createTurns(): Turns {
  const last = new Map<string, Promise<unknown>>();
  return {
    take: (name, run) => {
      const turn = (last.get(name) ?? Promise.resolve()).then(run);
      const ended = turn
        .catch(() => undefined)
        .then(() => {
          if (last.get(name) === ended) last.delete(name);
        });
      last.set(name, ended);
      return turn;
    },
  };
}
