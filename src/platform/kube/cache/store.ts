// The objects of one kind as last seen, by key and by index. It holds, finds, and reports changes; the reflector alone writes to it.
import { type KubeObject, objectKey } from "../../../contracts/kubernetes/object.ts";
import type { Logger } from "../../process/log.ts";

/** The values under which an object is found in one index; none: it is not in it. */
export type IndexOf<T> = (object: T) => readonly string[];

/** What readers see. Objects are shared: never change one. */
export interface ReadableStore<T extends KubeObject> {
  get(key: string): T | undefined;
  list(): T[];
  /** The objects under this value of a named index. Throws when there is no such index: that is a bug of the caller. */
  byIndex(name: string, value: string): T[];
  readonly size: number;
}

export interface Store<T extends KubeObject> extends ReadableStore<T> {
  /** Returns what was there before. */
  put(object: T): T | undefined;
  remove(key: string): T | undefined;
  keys(): Iterable<string>;
}

export function createStore<T extends KubeObject>(indexes: Readonly<Record<string, IndexOf<T>>>): Store<T> {
  const objects = new Map<string, T>();
  const buckets = new Map(Object.entries(indexes).map(([name, of]) => [name, createIndex(of)]));
  return {
    get: (key) => objects.get(key),
    list: () => [...objects.values()],
    byIndex: (name, value) => {
      const index = buckets.get(name);
      if (index === undefined) throw new Error(`no index "${name}"; there are: ${[...buckets.keys()].join(", ")}`);
      return index.keysOf(value).flatMap((key) => objects.get(key) ?? []);
    },
    get size() {
      return objects.size;
    },
    put: (object) => {
      const key = objectKey(object.metadata);
      const before = objects.get(key);
      for (const index of buckets.values()) index.move(key, before, object);
      objects.set(key, object);
      return before;
    },
    remove: (key) => {
      const before = objects.get(key);
      for (const index of buckets.values()) index.move(key, before, undefined);
      objects.delete(key);
      return before;
    },
    keys: () => objects.keys(),
  };
}

function createIndex<T>(of: IndexOf<T>) {
  /** Of most values there is one object: its key needs no set, which is larger than the key. */
  const keysByValue = new Map<string, string | Set<string>>();
  const keysOf = (value: string): readonly string[] => {
    const keys = keysByValue.get(value) ?? [];
    return typeof keys === "string" ? [keys] : [...keys];
  };
  const add = (value: string, key: string): void => {
    const keys = keysByValue.get(value);
    if (keys === undefined) keysByValue.set(value, key);
    else if (typeof keys !== "string") keys.add(key);
    else if (keys !== key) keysByValue.set(value, new Set([keys, key]));
  };
  const remove = (value: string, key: string): void => {
    const keys = keysByValue.get(value);
    if (typeof keys === "object") keys.delete(key);
    if (keys === key || (typeof keys === "object" && keys.size === 0)) keysByValue.delete(value);
  };
  return {
    keysOf,
    move: (key: string, before: T | undefined, after: T | undefined) => {
      for (const value of before === undefined ? [] : of(before)) remove(value, key);
      for (const value of after === undefined ? [] : of(after)) add(value, key);
    },
  };
}

// A store that reports its changes to each subscriber.

export interface NotifyingStore<T extends KubeObject> {
  readonly store: ReadableStore<T>;
  put(object: T): void;
  remove(key: string): void;
  /** These, and no others. */
  replace(objects: readonly T[]): void;
  /** What is in the store already is reported as added, at once. */
  subscribe(handlers: ChangeHandlers<T>): void;
}

/** `label`: the kind, for the log. */
export function createNotifyingStore<T extends KubeObject>(
  indexes: Readonly<Record<string, IndexOf<T>>>,
  label: string,
  log: Logger,
): NotifyingStore<T> {
  const store = createStore(indexes);
  const subscribers = createSubscribers<T>(label, log);

  const put = (object: T): void => {
    const before = store.put(object);
    // Deleted and recreated between two lists: for state per object that is two changes, not one.
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

/** Quick and synchronous at heart: usually they add a key to a queue. A rejected promise is logged like a throw. */
export interface ChangeHandlers<T> {
  added?(object: T): void | Promise<void>;
  updated?(object: T, before: T): void | Promise<void>;
  deleted?(object: T): void | Promise<void>;
}

interface Subscribers<T> {
  subscribe(handlers: ChangeHandlers<T>, existing: readonly T[]): void;
  added(object: T): void;
  updated(object: T, before: T): void;
  deleted(object: T): void;
}

/** `label` names the kind in logs. */
export function createSubscribers<T extends KubeObject>(label: string, log: Logger): Subscribers<T> {
  const subscribed: ChangeHandlers<T>[] = [];
  const guarded = (change: string, object: T, call: () => void | Promise<void>): void => {
    const report = (err: unknown): void =>
      log.error({ kind: label, object: objectKey(object.metadata), change, err }, "a change handler threw");
    try {
      const result = call();
      if (result instanceof Promise) result.catch(report);
    } catch (error) {
      report(error);
    }
  };
  const added = (handlers: ChangeHandlers<T>, object: T): void =>
    guarded("added", object, () => handlers.added?.(object));
  return {
    subscribe: (handlers, existing) => {
      subscribed.push(handlers);
      for (const object of existing) added(handlers, object);
    },
    added: (object) => {
      for (const handlers of subscribed) added(handlers, object);
    },
    updated: (object, before) => {
      for (const handlers of subscribed) guarded("updated", object, () => handlers.updated?.(object, before));
    },
    deleted: (object) => {
      for (const handlers of subscribed) guarded("deleted", object, () => handlers.deleted?.(object));
    },
  };
}
