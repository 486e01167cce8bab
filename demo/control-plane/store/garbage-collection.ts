// Owner references: dependents go when their last owner is gone, before it with foreground deletion, and stay with orphan deletion. Follows
// the store's changes through an index, in the background; no write waits for it.

import type { KindRegistry } from "../kinds/kind-registry.ts";
import type { ResourceKind } from "../kinds/resource-kind.ts";
import { cloneJson } from "./json.ts";
import { deleteObject, FOREGROUND_FINALIZER, ORPHAN_FINALIZER, removeFinalizer } from "./object-deletion.ts";
import type { ObjectStore } from "./store.ts";
import { addressOf, type ObjectAddress, type StoredObject, type StoredOwnerReference } from "./stored-object.ts";
import type { Change } from "./watch-history.ts";

/** Objects checked before other work of the process gets its turn. */
const BATCH_OBJECTS = 100;

interface Entry {
  readonly kind: ResourceKind;
  readonly address: ObjectAddress;
}

export class GarbageCollector {
  readonly #store: ObjectStore;
  readonly #registry: KindRegistry;
  readonly #now: () => string;
  readonly #objects = new Map<string, Entry>();
  readonly #dependents = new Map<string, Map<string, Entry>>();
  /** Uids to look at; at most one entry per object. */
  readonly #pending = new Map<string, Entry>();
  #scheduled: NodeJS.Immediate | undefined;

  constructor(store: ObjectStore, registry: KindRegistry, now: () => string) {
    this.#store = store;
    this.#registry = registry;
    this.#now = now;
    store.subscribeAll((change, kind) => this.#follow(change, kind));
  }

  close(): void {
    clearImmediate(this.#scheduled);
    this.#pending.clear();
  }

  #follow(change: Change, kind: ResourceKind): void {
    const { object, previous, type } = change;
    const { uid } = object.metadata;
    const entry = { kind, address: addressOf(object) };
    for (const { uid: owner } of previous?.metadata.ownerReferences ?? []) this.#removeDependent(owner, uid);
    if (type === "DELETED") {
      this.#objects.delete(uid);
      this.#pending.delete(uid);
      this.#enqueueDependents(uid);
      for (const { uid: owner } of object.metadata.ownerReferences ?? [])
        this.#enqueue(owner, this.#objects.get(owner));
      return;
    }
    this.#objects.set(uid, entry);
    for (const { uid: owner } of object.metadata.ownerReferences ?? []) this.#addDependent(owner, uid, entry);
    if (object.metadata.ownerReferences !== undefined || object.metadata.deletionTimestamp !== undefined)
      this.#enqueue(uid, entry);
  }

  #addDependent(owner: string, uid: string, entry: Entry): void {
    const dependents = this.#dependents.get(owner) ?? new Map<string, Entry>();
    dependents.set(uid, entry);
    this.#dependents.set(owner, dependents);
  }

  #removeDependent(owner: string, uid: string): void {
    const dependents = this.#dependents.get(owner);
    dependents?.delete(uid);
    if (dependents?.size === 0) this.#dependents.delete(owner);
  }

  #enqueueDependents(owner: string): void {
    for (const [uid, entry] of this.#dependents.get(owner) ?? []) this.#enqueue(uid, entry);
  }

  #enqueue(uid: string, entry: Entry | undefined): void {
    if (entry === undefined) return;
    this.#pending.set(uid, entry);
    this.#scheduled ??= setImmediate(() => this.#drain());
  }

  #drain(): void {
    this.#scheduled = undefined;
    let left = BATCH_OBJECTS;
    for (const [uid, entry] of this.#pending) {
      this.#pending.delete(uid);
      const object = this.#store.get(entry.kind, entry.address);
      if (object?.metadata.uid === uid) this.#attend(entry, object);
      left -= 1;
      if (left === 0) break;
    }
    if (this.#pending.size > 0) this.#scheduled ??= setImmediate(() => this.#drain());
  }

  #attend(entry: Entry, object: StoredObject): void {
    const { finalizers = [], deletionTimestamp, ownerReferences = [] } = object.metadata;
    if (deletionTimestamp !== undefined) {
      if (finalizers.includes(ORPHAN_FINALIZER)) this.#orphan(entry, object);
      else if (finalizers.includes(FOREGROUND_FINALIZER)) this.#deleteDependentsFirst(entry, object);
      return;
    }
    const present = ownerReferences.filter((reference) => this.#isPresent(reference, entry));
    if (ownerReferences.length === 0 || present.length === ownerReferences.length) return;
    if (present.length > 0) this.#setOwners(entry, object, present);
    else this.#delete(entry, "Background");
  }

  // An owner of a kind that is not served cannot be looked up, so it counts as present.
  #isPresent(reference: StoredOwnerReference, dependent: Entry): boolean {
    const owner = this.#objects.get(reference.uid);
    if (owner !== undefined)
      return owner.address.namespace === "" || owner.address.namespace === dependent.address.namespace;
    const [version = "", group = ""] = reference.apiVersion.split("/").reverse();
    return !this.#registry
      .all()
      .some((kind) => kind.kind === reference.kind && kind.group === group && kind.version === version);
  }

  #deleteDependentsFirst(entry: Entry, object: StoredObject): void {
    const { uid } = object.metadata;
    const dependents = [...(this.#dependents.get(uid)?.values() ?? [])];
    let blocked = false;
    for (const dependent of dependents) {
      const live = this.#store.get(dependent.kind, dependent.address);
      const reference = live?.metadata.ownerReferences?.find((each) => each.uid === uid);
      if (live?.metadata.deletionTimestamp === undefined) this.#delete(dependent, "Foreground");
      const remains = this.#store.get(dependent.kind, dependent.address) !== undefined;
      blocked ||= remains && reference?.blockOwnerDeletion === true;
    }
    if (!blocked) removeFinalizer(this.#store, entry.kind, entry.address, FOREGROUND_FINALIZER);
  }

  #orphan(entry: Entry, object: StoredObject): void {
    const { uid } = object.metadata;
    for (const dependent of [...(this.#dependents.get(uid)?.values() ?? [])]) {
      const live = this.#store.get(dependent.kind, dependent.address);
      const others = live?.metadata.ownerReferences?.filter((reference) => reference.uid !== uid) ?? [];
      if (live !== undefined) this.#setOwners(dependent, live, others);
    }
    removeFinalizer(this.#store, entry.kind, entry.address, ORPHAN_FINALIZER);
  }

  #setOwners({ kind, address }: Entry, live: StoredObject, owners: StoredOwnerReference[]): void {
    const object = cloneJson(live);
    if (owners.length > 0) object.metadata.ownerReferences = owners;
    else delete object.metadata.ownerReferences;
    this.#store.put(kind, address, object);
  }

  #delete({ kind, address }: Entry, propagationPolicy: "Background" | "Foreground"): void {
    if (this.#store.get(kind, address) === undefined) return;
    deleteObject(this.#store, kind, address, { propagationPolicy, dryRun: false }, this.#now());
  }
}
