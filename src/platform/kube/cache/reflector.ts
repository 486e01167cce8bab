// Keeps a store equal to what the API server has of one kind: list once, then watch, and resume without end. It never
// gives up, never spins, and never takes an error for "there are none": only a list or an event removes an object.
import { type KubeObject, objectKey, type Resource, resourceLabel } from "../../../contracts/kubernetes/object.ts";
import { BACK_OFFS, type BackOff, backOffMs } from "../../process/async/back-off.ts";
import { pause } from "../../process/async/pause.ts";
import { type Clock, systemClock } from "../../process/clock.ts";
import type { Logger } from "../../process/log.ts";
import type { Keep, KubeClient, ListOptions, WatchEvent } from "../client/client.ts";
import { isKubeError, KubeError } from "../kube-error.ts";
import { type ChangeHandlers, createNotifyingStore, type IndexOf, type ReadableStore } from "./store.ts";

interface ReflectorOptions<T extends KubeObject> {
  readonly client: Pick<KubeClient, "list" | "watch">;
  readonly resource: Resource<T>;
  readonly log: Logger;
  /** Namespace and selectors; absent: everything of the kind. */
  readonly select?: ListOptions;
  readonly indexes?: Readonly<Record<string, IndexOf<T>>>;
  /** For kinds of which there are many; absent: everything. What it leaves out is as if it were not there. */
  readonly keep?: Keep<T>;
  readonly clock?: Clock;
  readonly timing?: Partial<ReflectorTiming>;
}

export interface ReflectorTiming {
  readonly backOff: BackOff;
  /** A watch without an event or a bookmark for this long is taken for dead and resumed; servers send a bookmark a minute. */
  readonly silenceLimitMs: number;
  /** A watch that lived this long was a good one: the next follows at once. */
  readonly healthyWatchMs: number;
}

const TIMING: ReflectorTiming = {
  backOff: BACK_OFFS.watch,
  silenceLimitMs: 150_000,
  healthyWatchMs: 10_000,
};
const RETRY_AFTER_LIMIT_MS = 60_000;
/** Attempts in a row without a healthy watch, after which the kind is listed again. */
const RESUMES_LIMIT = 4;

export interface Reflector<T extends KubeObject> {
  readonly store: ReadableStore<T>;
  /** Resolves when the first list is in the store and its handlers have run; never when stopped before. */
  readonly synced: Promise<void>;
  /**
   * When the server was last heard, on the monotonic clock; undefined before the first list. A quiet kind hears a
   * bookmark a minute, so only an age of minutes says that the store may be behind.
   */
  lastContactMs(): number | undefined;
  /** What is in the store already is reported as added, at once. */
  subscribe(handlers: ChangeHandlers<T>): void;
  start(): void;
  /** No handler runs after it has resolved. */
  stop(): Promise<void>;
}

export function createReflector<T extends KubeObject>(options: ReflectorOptions<T>): Reflector<T> {
  const clock = options.clock ?? systemClock;
  const keep: Keep<T> = options.keep ?? ((object) => object);
  const told = createNotifyingStore(options.indexes ?? {}, resourceLabel(options.resource), options.log);
  const stopping = new AbortController();
  let lastContactMs: number | undefined;
  let running: Promise<void> = Promise.resolve();
  let reportSynced: () => void = () => {};
  const synced = new Promise<void>((resolve) => {
    reportSynced = resolve;
  });

  const follow: Following<T> = {
    ...options,
    clock,
    timing: { ...TIMING, ...options.timing },
    signal: stopping.signal,
    replace: (objects) => {
      lastContactMs = clock.monotonicMs();
      told.replace(objects);
      reportSynced();
    },
    take: (event) => {
      lastContactMs = clock.monotonicMs();
      if (event.type === "BOOKMARK") return;
      const kept = event.type === "DELETED" ? undefined : keep(event.object);
      if (kept === undefined) told.remove(objectKey(event.object.metadata));
      else told.put(kept);
    },
  };

  return {
    store: told.store,
    synced,
    lastContactMs: () => lastContactMs,
    subscribe: told.subscribe,
    start: () => {
      running = followForEver(follow);
    },
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}

interface Following<T extends KubeObject> extends ReflectorOptions<T> {
  readonly clock: Clock;
  readonly timing: ReflectorTiming;
  readonly signal: AbortSignal;
  replace(objects: readonly T[]): void;
  take(event: WatchEvent<T>): void;
}

async function followForEver<T extends KubeObject>(following: Following<T>): Promise<void> {
  const { timing, signal, log, resource } = following;
  const position: Position = { resourceVersion: undefined };
  let failures = 0;
  while (!signal.aborted) {
    const { problem, watchedMs } = await listAndWatch(following, position);
    if (signal.aborted) return;
    failures = watchedMs >= timing.healthyWatchMs ? 0 : failures + 1;
    // Without progress the position itself may be what the server cannot serve, as after its database was restored.
    if (isKubeError(problem, "Expired") || failures % RESUMES_LIMIT === RESUMES_LIMIT - 1)
      position.resourceVersion = undefined;
    const waitMs = Math.max(backOffMs(failures, timing.backOff, Math.random()), retryAfterMs(problem));
    const level = problem === undefined || isKubeError(problem, "Expired") ? "debug" : "warn";
    log[level]({ kind: resourceLabel(resource), failures, waitMs, err: problem }, "watch ended; resuming");
    await pause(waitMs, signal);
  }
}

/** Where the next watch begins; undefined: with a list. It stays while a watch runs, so that any end of it can be resumed. */
interface Position {
  resourceVersion: string | undefined;
}

interface WatchEnd {
  /** Undefined when the server closed the watch, or it fell silent. */
  readonly problem?: unknown;
  /** 0 when it did not come to a watch. */
  readonly watchedMs: number;
}

async function listAndWatch<T extends KubeObject>(following: Following<T>, position: Position): Promise<WatchEnd> {
  const { client, resource, select, keep, signal, clock } = following;
  let watchingSinceMs: number | undefined;
  const end = (problem?: unknown): WatchEnd => ({
    problem,
    watchedMs: watchingSinceMs === undefined ? 0 : clock.monotonicMs() - watchingSinceMs,
  });
  try {
    if (position.resourceVersion === undefined) {
      const { items, resourceVersion } = await client.list(resource, select, keep);
      if (signal.aborted) return end();
      following.replace(items);
      position.resourceVersion = resourceVersion;
    }
    watchingSinceMs = clock.monotonicMs();
    await watchFrom(following, position, position.resourceVersion);
    return end();
  } catch (error) {
    return end(error);
  }
}

async function watchFrom<T extends KubeObject>(
  { client, resource, select, timing, signal, take }: Following<T>,
  position: Position,
  resourceVersion: string,
): Promise<void> {
  const watchdog = createWatchdog(timing.silenceLimitMs, signal);
  try {
    for await (const event of client.watch(resource, { ...select, resourceVersion, signal: watchdog.signal })) {
      if (watchdog.signal.aborted) return;
      watchdog.feed();
      take(event);
      position.resourceVersion =
        event.type === "BOOKMARK" ? event.resourceVersion : event.object.metadata.resourceVersion;
    }
  } finally {
    watchdog.end();
  }
}

/** Aborts its signal when it is not fed for a while, or when the outer signal aborts. */
function createWatchdog(silenceLimitMs: number, outer: AbortSignal) {
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  const timer = setTimeout(abort, silenceLimitMs);
  outer.addEventListener("abort", abort);
  if (outer.aborted) abort();
  return {
    signal: controller.signal,
    feed: () => {
      timer.refresh();
    },
    end: () => {
      clearTimeout(timer);
      outer.removeEventListener("abort", abort);
    },
  };
}

function retryAfterMs(problem: unknown): number {
  const askedMs = problem instanceof KubeError ? (problem.retryAfterMs ?? 0) : 0;
  return Math.min(askedMs, RETRY_AFTER_LIMIT_MS);
}

/** Several reflectors as one, started and stopped together. Each has its own store. */
export interface ReflectorSet {
  /** Resolves when each has its first list in its store. */
  readonly synced: Promise<void>;
  start(): void;
  stop(): Promise<void>;
}

export function reflectorSet(reflectors: readonly Pick<Reflector<KubeObject>, keyof ReflectorSet>[]): ReflectorSet {
  return {
    synced: Promise.all(reflectors.map(({ synced }) => synced)).then(() => undefined),
    start: () => {
      for (const reflector of reflectors) reflector.start();
    },
    stop: async () => {
      await Promise.all(reflectors.map((reflector) => reflector.stop()));
    },
  };
}
