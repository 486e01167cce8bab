// Several reflectors as one: begun, awaited and stopped together. What each holds is its own.
import type { KubeObject } from "../object.ts";
import type { Reflector } from "./reflector.ts";

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
