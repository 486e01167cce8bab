// The recent changes of one kind, in order: what a watch resumes from and what a paged list is rebuilt from. Bounded; what
// falls out of it is answered with 410 Expired.
import { addressKey, addressOf, type StoredObject } from "./stored-object.ts";

/** One committed change. `previous` is absent when the object was created, `object` is the last state when it was deleted. */
export interface Change {
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly version: number;
  readonly object: StoredObject;
  readonly previous: StoredObject | undefined;
}

/** Changes stored per kind. */
export const HISTORY_CHANGES = 4096;

export class WatchHistory {
  readonly #limit: number;
  readonly #ring: Change[] = [];
  #oldest = 0;
  /** Every change after this version is still known. */
  #knownSince: number;

  constructor(knownSince: number, limit: number = HISTORY_CHANGES) {
    this.#knownSince = knownSince;
    this.#limit = limit;
  }

  append(change: Change): void {
    if (this.#ring.length < this.#limit) {
      this.#ring.push(change);
      return;
    }
    this.#knownSince = (this.#ring[this.#oldest] as Change).version;
    this.#ring[this.#oldest] = change;
    this.#oldest = (this.#oldest + 1) % this.#limit;
  }

  /** The changes after a version, oldest first; undefined when some of them are forgotten. */
  after(version: number): Change[] | undefined {
    if (version < this.#knownSince) return undefined;
    const changes: Change[] = [];
    for (let back = 1; back <= this.#ring.length; back += 1) {
      const index = (this.#oldest - back + this.#ring.length) % this.#ring.length;
      const change = this.#ring[index] as Change;
      if (change.version <= version) break;
      changes.push(change);
    }
    return changes.reverse();
  }

  /** The objects as they were at a version, given those of now; undefined when that is forgotten. */
  rewind(objects: Iterable<StoredObject>, version: number): StoredObject[] | undefined {
    const changes = this.after(version);
    if (changes === undefined) return undefined;
    if (changes.length === 0) return [...objects];
    const then = new Map<string, StoredObject | undefined>();
    for (const change of changes) {
      const key = addressKey(addressOf(change.object));
      if (!then.has(key)) then.set(key, change.previous);
    }
    const unchanged = [...objects].filter((object) => !then.has(addressKey(addressOf(object))));
    return [...unchanged, ...[...then.values()].filter((object) => object !== undefined)];
  }
}
