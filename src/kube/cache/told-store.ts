// A store whose changes are told to each that has subscribed.
import type { Logger } from "../../process/log.ts";
import { type KubeObject, objectKey } from "../object.ts";
import { type ChangeHandlers, createSubscribers } from "./change-handlers.ts";
import { createStore, type IndexOf, type ReadableStore } from "./store.ts";

export interface ToldStore<T extends KubeObject> {
  readonly store: ReadableStore<T>;
  put(object: T): void;
  remove(key: string): void;
  /** These, and no others. */
  replace(objects: readonly T[]): void;
  /** What is in the store already is told as added, at once. */
  subscribe(handlers: ChangeHandlers<T>): void;
}

/** `label`: the kind, for the log. */
export function createToldStore<T extends KubeObject>(
  indexes: Readonly<Record<string, IndexOf<T>>>,
  label: string,
  log: Logger,
): ToldStore<T> {
  const store = createStore(indexes);
  const subscribers = createSubscribers<T>(label, log);

  const put = (object: T): void => {
    const before = store.put(object);
    // Deleted and made again while nobody watched: for whoever keeps state per object that is two changes, not one.
    if (before !== undefined && before.metadata.uid !== object.metadata.uid) {
      subscribers.deleted(before);
      subscribers.added(object);
    } else if (before === undefined) subscribers.added(object);
    else if (before.metadata.resourceVersion !== object.metadata.resourceVersion) subscribers.updated(object, before);
  };
  const remove = (key: string): void => {
    const before = store.remove(key);
    if (before !== undefined) subscribers.deleted(before);
  };
  return {
    store,
    put,
    remove,
    replace: (objects) => {
      const listed = new Set(objects.map((object) => objectKey(object.metadata)));
      for (const key of [...store.keys()]) if (!listed.has(key)) remove(key);
      for (const object of objects) put(object);
    },
    subscribe: (handlers) => subscribers.subscribe(handlers, store.list()),
  };
}
