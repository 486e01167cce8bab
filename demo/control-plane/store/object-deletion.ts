// Deleting objects: at once when nothing holds them, else marked until the last finalizer has left.
import { conflict, notFound } from "../http/api-error.ts";
import { DEFINITION_FINALIZER, NAMESPACE_FINALIZER } from "../kinds/kind-rules.ts";
import type { ResourceKind } from "../kinds/resource-kind.ts";
import { uidConflict } from "./changed-object.ts";
import { asJsonObject, cloneJson } from "./json.ts";
import type { ObjectStore } from "./store.ts";
import { type ObjectAddress, type StoredObject } from "./stored-object.ts";

export type PropagationPolicy = "Background" | "Foreground" | "Orphan";

export interface DeletionOptions {
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly propagationPolicy: PropagationPolicy;
  readonly dryRun: boolean;
}

/** The finalizers that the garbage collector answers. */
export const FOREGROUND_FINALIZER = "foregroundDeletion";
export const ORPHAN_FINALIZER = "orphan";

export interface Deleted {
  readonly object: StoredObject;
  /** False while finalizers hold it. */
  readonly gone: boolean;
}

/** Throws 404, or 409 when a precondition does not hold. `now` is an RFC 3339 time. */
export function deleteObject(
  store: ObjectStore,
  kind: ResourceKind,
  address: ObjectAddress,
  options: DeletionOptions,
  now: string,
): Deleted {
  const live = store.get(kind, address);
  if (live === undefined) throw notFound(kind, address.name);
  checkPreconditions(kind, live, options);
  const marked = markDeleted(kind, live, options.propagationPolicy, now);
  const gone = isLastBreath(kind, marked);
  if (options.dryRun) return { object: marked, gone };
  if (gone) return { object: store.remove(kind, address, live), gone };
  const changed = live.metadata.deletionTimestamp === undefined || finalizerCount(marked) !== finalizerCount(live);
  return { object: changed ? store.put(kind, address, marked) : live, gone };
}

/** Whether an object that was marked as deleted has nothing left that holds it. */
export function isLastBreath(kind: ResourceKind, object: StoredObject): boolean {
  if (object.metadata.deletionTimestamp === undefined || finalizerCount(object) > 0) return false;
  if (kind.custom || kind.kind !== "Namespace") return true;
  const { finalizers } = asJsonObject(object["spec"]);
  return !Array.isArray(finalizers) || !finalizers.includes(NAMESPACE_FINALIZER);
}

function finalizerCount(object: StoredObject): number {
  return object.metadata.finalizers?.length ?? 0;
}

function checkPreconditions(kind: ResourceKind, live: StoredObject, { uid, resourceVersion }: DeletionOptions): void {
  const { name, uid: liveUid, resourceVersion: liveVersion } = live.metadata;
  if (uid !== undefined && uid !== liveUid) throw uidConflict(kind, name, uid, liveUid);
  if (resourceVersion === undefined || resourceVersion === liveVersion) return;
  const why = `Precondition failed: ResourceVersion in precondition: ${resourceVersion}, ResourceVersion in object meta: ${liveVersion}`;
  throw conflict(kind, name, why);
}

function markDeleted(kind: ResourceKind, live: StoredObject, policy: PropagationPolicy, now: string): StoredObject {
  const object = cloneJson(live);
  const { metadata } = object;
  const finalizers = new Set(metadata.finalizers);
  if (policy === "Foreground") finalizers.add(FOREGROUND_FINALIZER);
  if (policy === "Orphan") finalizers.add(ORPHAN_FINALIZER);
  if (!kind.custom && kind.kind === "CustomResourceDefinition") finalizers.add(DEFINITION_FINALIZER);
  if (finalizers.size > 0) metadata.finalizers = [...finalizers];
  if (!kind.custom && kind.kind === "Namespace")
    object["status"] = { ...asJsonObject(object["status"]), phase: "Terminating" };
  if (metadata.deletionTimestamp !== undefined) return object;
  metadata.deletionTimestamp = now;
  metadata.deletionGracePeriodSeconds = 0;
  if (metadata.generation !== undefined) metadata.generation += 1;
  return object;
}

/** Takes one finalizer off; the object goes when that was the last hold. */
export function removeFinalizer(
  store: ObjectStore,
  kind: ResourceKind,
  address: ObjectAddress,
  finalizer: string,
): void {
  const live = store.get(kind, address);
  if (live === undefined) return;
  const object = cloneJson(live);
  const rest = (object.metadata.finalizers ?? []).filter((each) => each !== finalizer);
  if (rest.length > 0) object.metadata.finalizers = rest;
  else delete object.metadata.finalizers;
  if (isLastBreath(kind, object)) store.remove(kind, address, object);
  else store.put(kind, address, object);
}
