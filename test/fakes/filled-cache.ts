// A reflector that a case fills by hand, instead of a watch. Its handlers hear of each change at once.

import type { KubeObject } from "../../src/contracts/kubernetes/object.ts";
import type { Reflector } from "../../src/platform/kube/cache/reflector.ts";
import { createStore, createSubscribers, type IndexOf } from "../../src/platform/kube/cache/store.ts";
import { createRecordingLog } from "./recording-log.ts";

export interface FilledCache<T extends KubeObject> extends Reflector<T> {
  put(object: T): void;
  remove(key: string): void;
}

/** Synced from the start. An object that is put again is another version of it, whatever its resourceVersion says. */
export function filledCache<T extends KubeObject>(
  indexes: Readonly<Record<string, IndexOf<T>>> = {},
  objects: readonly T[] = [],
): FilledCache<T> {
  const store = createStore(indexes);
  for (const object of objects) store.put(object);
  const subscribers = createSubscribers<T>("cache", createRecordingLog().log);
  return {
    store,
    synced: Promise.resolve(),
    lastContactMs: () => 0,
    start: () => undefined,
    stop: async () => undefined,
    subscribe: (handlers) => subscribers.subscribe(handlers, store.list()),
    put: (object) => {
      const before = store.put(object);
      if (before === undefined) subscribers.added(object);
      else if (before !== object) subscribers.updated(object, before);
    },
    remove: (key) => {
      const before = store.remove(key);
      if (before !== undefined) subscribers.deleted(before);
    },
  };
}
