// What is deleted with its content: a Namespace with everything in it, a CustomResourceDefinition with all objects of its
// kind. The container goes last, when its content is gone. Works in the background, on the store's changes.

import type { KindRegistry } from "../kinds/kind-registry.ts";
import { DEFINITION_FINALIZER, NAMESPACE_FINALIZER } from "../kinds/kind-rules.ts";
import type { ResourceKind } from "../kinds/resource-kind.ts";
import { asJsonObject, cloneJson } from "./json.ts";
import { deleteObject, isLastBreath, removeFinalizer } from "./object-deletion.ts";
import type { ObjectStore } from "./store.ts";
import { addressOf, type StoredObject } from "./stored-object.ts";
import type { Change } from "./watch-history.ts";

/** Objects deleted before other work of the process gets its turn. */
const BATCH_OBJECTS = 100;

export class ContentDeletion {
  readonly #store: ObjectStore;
  readonly #registry: KindRegistry;
  readonly #now: () => string;
  /** Containers that are being deleted, by uid. */
  readonly #terminating = new Map<string, { kind: ResourceKind; object: StoredObject }>();
  #scheduled: NodeJS.Immediate | undefined;

  constructor(store: ObjectStore, registry: KindRegistry, now: () => string) {
    this.#store = store;
    this.#registry = registry;
    this.#now = now;
    store.subscribeAll((change, kind) => this.#follow(change, kind));
  }

  close(): void {
    clearImmediate(this.#scheduled);
    this.#terminating.clear();
  }

  #follow({ type, object }: Change, kind: ResourceKind): void {
    const isContainer = !kind.custom && (kind.kind === "Namespace" || kind.kind === "CustomResourceDefinition");
    const { uid, deletionTimestamp } = object.metadata;
    if (isContainer && type === "DELETED") this.#terminating.delete(uid);
    else if (isContainer && deletionTimestamp !== undefined) this.#terminating.set(uid, { kind, object });
    else if (type !== "DELETED") return;
    if (this.#terminating.size > 0) this.#scheduled ??= setImmediate(() => this.#advance());
  }

  #advance(): void {
    this.#scheduled = undefined;
    for (const { kind, object } of [...this.#terminating.values()]) this.#empty(kind, object);
  }

  #empty(kind: ResourceKind, container: StoredObject): void {
    const [contents, namespace] = this.#contentsOf(kind, container);
    let left = BATCH_OBJECTS;
    let remaining = 0;
    for (const content of contents) {
      for (const object of [...this.#store.all(content, namespace)]) {
        if (object.metadata.deletionTimestamp !== undefined || left === 0) continue;
        left -= 1;
        const options = { propagationPolicy: "Background", dryRun: false } as const;
        deleteObject(this.#store, content, addressOf(object), options, this.#now());
      }
      remaining += this.#store.size(content, namespace);
    }
    if (remaining === 0) this.#release(kind, container);
    else if (left === 0) this.#scheduled ??= setImmediate(() => this.#advance());
  }

  #contentsOf(kind: ResourceKind, { metadata }: StoredObject): [ResourceKind[], string] {
    if (kind.kind === "Namespace") return [this.#registry.all().filter(({ namespaced }) => namespaced), metadata.name];
    const custom = this.#registry.custom(metadata.name);
    return [custom === undefined ? [] : [custom], ""];
  }

  #release(kind: ResourceKind, container: StoredObject): void {
    const address = addressOf(container);
    if (kind.kind === "CustomResourceDefinition") {
      removeFinalizer(this.#store, kind, address, DEFINITION_FINALIZER);
      return;
    }
    const live = this.#store.get(kind, address);
    if (live === undefined) return;
    const object = cloneJson(live);
    const spec = asJsonObject(object["spec"]);
    const finalizers = Array.isArray(spec["finalizers"]) ? spec["finalizers"] : [];
    if (!finalizers.includes(NAMESPACE_FINALIZER)) return;
    object["spec"] = { ...spec, finalizers: finalizers.filter((each) => each !== NAMESPACE_FINALIZER) };
    if (isLastBreath(kind, object)) this.#store.remove(kind, address, object);
    else this.#store.put(kind, address, object);
  }
}
