// When what a benchmark waits for was first seen in a cluster's API, by watches: looking again and again would add to the times.
import { pino } from "pino";
import type { KubeObject, Resource } from "../../src/contracts/kubernetes/object.ts";
import { createReflector, type Reflector } from "../../src/platform/kube/cache/reflector.ts";
import type { KubeClient, ListOptions } from "../../src/platform/kube/client/client.ts";

export interface Sightings {
  /** Resolves when what is there has been seen. `marksOf` names what holds of an object, `goneOf` what holds once it is deleted. */
  follow<T extends KubeObject>(watched: Watched<T>): Promise<void>;
  /** On performance.now()'s clock; undefined: not seen so far. */
  atMs(mark: string): number | undefined;
  /** Rejects with `otherwise` when the time is up. */
  until(mark: string, limitMs: number, otherwise: () => Promise<string>): Promise<number>;
  stop(): Promise<void>;
}

export interface Watched<T extends KubeObject> {
  readonly resource: Resource<T>;
  readonly select?: ListOptions;
  readonly marksOf?: (object: T) => readonly string[];
  readonly goneOf?: (object: T) => readonly string[];
}

export function createSightings(client: Pick<KubeClient, "list" | "watch">): Sightings {
  const seen = new Map<string, number>();
  const wakers = new Map<string, () => void>();
  const reflectors: Pick<Reflector<KubeObject>, "stop">[] = [];
  const note = (marks: readonly string[]): void => {
    for (const mark of marks) {
      if (!seen.has(mark)) seen.set(mark, performance.now());
      wakers.get(mark)?.();
    }
  };
  return {
    follow: async ({ resource, select = {}, marksOf = () => [], goneOf = () => [] }) => {
      const reflector = createReflector({ client, resource, select, log: pino({ level: "silent" }) });
      const look = (object: Parameters<typeof marksOf>[0]): void => note(marksOf(object));
      reflector.subscribe({ added: look, updated: look, deleted: (object) => note(goneOf(object)) });
      reflectors.push(reflector);
      reflector.start();
      await reflector.synced;
    },
    atMs: (mark) => seen.get(mark),
    until: async (mark, limitMs, otherwise) => {
      const timeIsUp = await untilSeen(seen, wakers, mark, limitMs);
      const atMs = seen.get(mark);
      if (timeIsUp || atMs === undefined)
        throw new Error(`waited ${limitMs} ms in vain for ${mark}; ${await otherwise()}`);
      return atMs;
    },
    stop: async () => {
      await Promise.all(reflectors.map((reflector) => reflector.stop()));
    },
  };
}

/** True when the time was up first. */
function untilSeen(
  seen: ReadonlyMap<string, number>,
  wakers: Map<string, () => void>,
  mark: string,
  limitMs: number,
): Promise<boolean> {
  if (seen.has(mark)) return Promise.resolve(false);
  return new Promise((resolve) => {
    const end = (timeIsUp: boolean): void => {
      clearTimeout(timer);
      wakers.delete(mark);
      resolve(timeIsUp);
    };
    const timer = setTimeout(() => end(true), limitMs);
    wakers.set(mark, () => end(false));
  });
}
