// The objects of one kind as last seen, by key and by index. It holds and finds; the reflector alone writes to it.
import { type KubeObject, objectKey } from "../object.ts";

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
