// What a decision has read of the caches, noted while it reads: whatever facts are made of, nothing of it is forgotten. It keeps no copies:
// caches replace an object when it changes.
import type { KubeObject } from "../../contracts/kubernetes/object.ts";
import type { ReadableStore } from "../../platform/kube/cache/store.ts";

/** Of one decision. */
export interface CacheReads {
  /** Each of them would find the same again. */
  areCurrent(): boolean;
}

export interface NotedCaches<C> {
  /** The same, noting what is read of them. */
  readonly caches: C;
  /** What is read from now on is one decision's. */
  begin(): void;
  /** Undefined: it has read a whole kind, which is never the same for long. */
  end(): CacheReads | undefined;
}

/** One way to read: by key, or by an index. */
interface Reader {
  find(key: string): unknown;
  isSame(before: unknown, now: unknown): boolean;
}

export function noteReads<C extends Readonly<Record<string, { readonly store: object }>>>(caches: C): NotedCaches<C> {
  const notes = new Notes();
  const noted = Object.entries(caches).map(([kind, cache]) => {
    const store = new NotedStore(cache.store as ReadableStore<KubeObject>, notes);
    return [kind, { ...cache, store }];
  });
  return { caches: Object.fromEntries(noted) as C, begin: () => notes.begin(), end: () => notes.end() };
}

class Notes {
  #reads: unknown[] | undefined;
  #isWhole = true;

  begin(): void {
    this.#reads = [];
    this.#isWhole = true;
  }

  end(): CacheReads | undefined {
    const reads = this.#reads;
    this.#reads = undefined;
    return reads === undefined || !this.#isWhole ? undefined : new NotedReads(reads);
  }

  add(reader: Reader, key: string, found: unknown): void {
    this.#reads?.push(reader, key, found);
  }

  addWholeKind(): void {
    this.#isWhole = false;
  }
}

class NotedReads implements CacheReads {
  /** [reader, key, found, …] */
  readonly #reads: readonly unknown[];

  constructor(reads: readonly unknown[]) {
    this.#reads = reads;
  }

  areCurrent(): boolean {
    const reads = this.#reads;
    for (let i = 0; i < reads.length; i += 3) {
      const reader = reads[i] as Reader;
      if (!reader.isSame(reads[i + 2], reader.find(reads[i + 1] as string))) return false;
    }
    return true;
  }
}

class NotedStore<T extends KubeObject> implements ReadableStore<T> {
  readonly #store: ReadableStore<T>;
  readonly #notes: Notes;
  readonly #byKey: Reader;
  readonly #byIndex = new Map<string, Reader>();

  constructor(store: ReadableStore<T>, notes: Notes) {
    this.#store = store;
    this.#notes = notes;
    this.#byKey = { find: (key) => store.get(key), isSame: Object.is };
  }

  get(key: string): T | undefined {
    const found = this.#store.get(key);
    this.#notes.add(this.#byKey, key, found);
    return found;
  }

  byIndex(name: string, value: string): T[] {
    const found = this.#store.byIndex(name, value);
    this.#notes.add(this.#readerOf(name), value, found);
    return found;
  }

  list(): T[] {
    this.#notes.addWholeKind();
    return this.#store.list();
  }

  get size(): number {
    this.#notes.addWholeKind();
    return this.#store.size;
  }

  #readerOf(name: string): Reader {
    const known = this.#byIndex.get(name);
    if (known !== undefined) return known;
    const reader = { find: (value: string) => this.#store.byIndex(name, value), isSame: isSameList };
    this.#byIndex.set(name, reader);
    return reader;
  }
}

function isSameList(before: unknown, now: unknown): boolean {
  const [a, b] = [before as readonly unknown[], now as readonly unknown[]];
  return a.length === b.length && a.every((object, index) => object === b[index]);
}
