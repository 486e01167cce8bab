// Compiles policies in short turns, one namespace after another, so that decisions are made meanwhile: at most half of the thread's time
// is spent on compiling, however many policies change.

/** A turn ends with the policy that passes it. */
const TURN_MS = 10;
/** However long a turn was, as on a machine that stands still. */
const LONGEST_PAUSE_MS = 250;

export interface CompileTurns {
  /** There is something to do in this scope. Where no turn was just held, it is begun at once. */
  soon(scope: string): void;
  /** Resolves once nothing is left to do. */
  settled(): Promise<void>;
  stop(): void;
}

export interface TurnOptions {
  /** Compiles one policy of the scope; whether there may be more to do. Never throws. */
  readonly step: (scope: string) => boolean;
  /** After each turn. */
  readonly onTurn: () => void;
  readonly monotonicMs: () => number;
}

export function createCompileTurns({ step, onTurn, monotonicMs }: TurnOptions): CompileTurns {
  const scopes = new Set<string>();
  let pause: NodeJS.Timeout | undefined;
  let isStopped = false;
  let waiting: (() => void)[] = [];

  const turn = (): void => {
    pause = undefined;
    const sinceMs = monotonicMs();
    for (const scope of scopes) {
      scopes.delete(scope);
      // Behind all others, which have their turn first.
      if (step(scope)) scopes.add(scope);
      if (monotonicMs() - sinceMs >= TURN_MS) break;
    }
    onTurn();
    if (scopes.size === 0) {
      for (const resolve of waiting) resolve();
      waiting = [];
    }
    const tookMs = monotonicMs() - sinceMs;
    pause = setTimeout(turnOrRest, Math.min(LONGEST_PAUSE_MS, tookMs));
  };
  const turnOrRest = (): void => {
    pause = undefined;
    if (scopes.size > 0) turn();
  };
  return {
    soon: (scope) => {
      if (isStopped) return;
      scopes.add(scope);
      if (pause === undefined) turn();
    },
    settled: () => (scopes.size === 0 ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))),
    stop: () => {
      isStopped = true;
      scopes.clear();
      clearTimeout(pause);
    },
  };
}
