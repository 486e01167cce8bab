// All objects, in memory, and the one place that changes them: a write costs the same whether a kind has ten objects or
// ten thousand. It knows nothing of the rules of the API.
import type { ResourceKind } from "../kinds/resource-kind.ts";
import { type ObjectAddress, type StoredObject } from "./stored-object.ts";
import { type Change, WatchHistory } from "./watch-history.ts";

export type ChangeListener = (change: Change, kind: ResourceKind) => void;

interface Subscription {
  readonly onChange: ChangeListener;
  readonly onEnd: () => void;
}

interface Collection {
  readonly byNamespace: Map<string, Map<string, StoredObject>>;
  readonly history: WatchHistory;
  readonly subscriptions: Set<Subscription>;
  size: number;
}

export class ObjectStore {
  readonly #collections = new Map<string, Collection>();
  readonly #listeners = new Set<ChangeListener>();
  #version: number;

  /**
   * @param firstVersion where resourceVersions start. A restarted control plane must start above every version it ever gave out, so that a
   * client's old one is answered with 410 and not mistaken for a present one.
   */
  constructor(firstVersion: number) {
    this.#version = firstVersion;
  }

  get version(): number {
    return this.#version;
  }

  get(kind: ResourceKind, address: ObjectAddress): StoredObject | undefined {
    return this.#collection(kind).byNamespace.get(address.namespace)?.get(address.name);
  }

  /** The kind's objects of a namespace, or of all when it is empty; in no order. */
  *all(kind: ResourceKind, namespace: string): Generator<StoredObject> {
    const { byNamespace } = this.#collection(kind);
    if (namespace !== "") {
      yield* byNamespace.get(namespace)?.values() ?? [];
      return;
    }
    for (const objects of byNamespace.values()) yield* objects.values();
  }

  size(kind: ResourceKind, namespace = ""): number {
    const collection = this.#collection(kind);
    return namespace === "" ? collection.size : (collection.byNamespace.get(namespace)?.size ?? 0);
  }

  history(kind: ResourceKind): WatchHistory {
    return this.#collection(kind).history;
  }

  /** Stores an object under the next resourceVersion, which it writes into it, and calls the listeners. */
  put(kind: ResourceKind, address: ObjectAddress, object: StoredObject): StoredObject {
    const collection = this.#collection(kind);
    const objects = namespaceObjects(collection, address.namespace);
    const previous = objects.get(address.name);
    const version = this.#nextVersion();
    object.metadata.resourceVersion = String(version);
    objects.set(address.name, object);
    if (previous === undefined) collection.size += 1;
    this.#tell(collection, kind, { type: previous ? "MODIFIED" : "ADDED", version, object, previous });
    return object;
  }

  /** Forgets an object; `last` is its final state, as watchers see it. */
  remove(kind: ResourceKind, address: ObjectAddress, last: StoredObject): StoredObject {
    const collection = this.#collection(kind);
    const objects = namespaceObjects(collection, address.namespace);
    const previous = objects.get(address.name);
    const version = this.#nextVersion();
    const object = { ...last, metadata: { ...last.metadata, resourceVersion: String(version) } };
    objects.delete(address.name);
    if (objects.size === 0) collection.byNamespace.delete(address.namespace);
    collection.size -= 1;
    this.#tell(collection, kind, { type: "DELETED", version, object, previous });
    return object;
  }

  /** Calls back on each change of the kind, after it is stored, and once when the kind goes; returns how to stop. */
  subscribe(kind: ResourceKind, onChange: ChangeListener, onEnd: () => void): () => void {
    const { subscriptions } = this.#collection(kind);
    const subscription = { onChange, onEnd };
    subscriptions.add(subscription);
    return () => subscriptions.delete(subscription);
  }

  /** Forgets a kind that is no longer served, its history too. Its objects are gone before. */
  forget(kind: ResourceKind): void {
    const { subscriptions } = this.#collection(kind);
    this.#collections.delete(collectionKey(kind));
    for (const { onEnd } of subscriptions) onEnd();
  }

  /** The same for every kind. */
  subscribeAll(listener: ChangeListener): void {
    this.#listeners.add(listener);
  }

  #nextVersion(): number {
    this.#version += 1;
    return this.#version;
  }

  #tell(collection: Collection, kind: ResourceKind, change: Change): void {
    collection.history.append(change);
    for (const { onChange } of collection.subscriptions) onChange(change, kind);
    for (const listener of this.#listeners) listener(change, kind);
  }

  #collection(kind: ResourceKind): Collection {
    const key = collectionKey(kind);
    let collection = this.#collections.get(key);
    if (collection === undefined) {
      collection = {
        byNamespace: new Map(),
        history: new WatchHistory(this.#version),
        subscriptions: new Set(),
        size: 0,
      };
      this.#collections.set(key, collection);
    }
    return collection;
  }
}

function collectionKey(kind: ResourceKind): string {
  return `${kind.group}/${kind.plural}`;
}

function namespaceObjects(collection: Collection, namespace: string): Map<string, StoredObject> {
  let objects = collection.byNamespace.get(namespace);
  if (objects === undefined) {
    objects = new Map();
    collection.byNamespace.set(namespace, objects);
  }
  return objects;
}
