// What the extender keeps of an object's metadata, by what is read of its kind.
import { RECORDS, SELECTED_NODE } from "../../../api/names.ts";
import type { ObjectMeta } from "../../../kube/object.ts";
import type { Once } from "./kept-once.ts";

export function keptMeta(
  { name, namespace, uid, resourceVersion, deletionTimestamp }: ObjectMeta,
  once: Once,
): ObjectMeta {
  return { name, namespace: once.text(namespace), uid, resourceVersion, deletionTimestamp };
}

/** Of those whose age counts. */
export function agedMeta(
  { name, uid, resourceVersion, creationTimestamp, deletionTimestamp, namespace }: ObjectMeta,
  once: Once,
  generation?: number,
): ObjectMeta {
  return {
    name,
    namespace: once.text(namespace),
    uid,
    resourceVersion,
    creationTimestamp: once.text(creationTimestamp),
    deletionTimestamp,
    generation,
  };
}

export function claimMeta(whole: ObjectMeta, once: Once): ObjectMeta {
  const selected = whole.annotations?.[SELECTED_NODE];
  const owners = whole.ownerReferences?.filter((owner) => owner.kind === "Pod") ?? [];
  const kept = keptMeta(whole, once);
  if (selected !== undefined) kept.annotations = { [SELECTED_NODE]: once.text(selected) };
  if (owners.length > 0) kept.ownerReferences = owners;
  return kept;
}

export function volumeMeta(whole: ObjectMeta, once: Once): ObjectMeta {
  const uid = whole.labels?.[RECORDS.volumeUID];
  const kept = keptMeta(whole, once);
  if (uid !== undefined) kept.labels = { [RECORDS.volumeUID]: uid };
  return kept;
}

export function keptLabels(labels: Readonly<Record<string, string>> | undefined, once: Once): Record<string, string> {
  return Object.fromEntries(Object.entries(labels ?? {}).map(([key, value]) => [once.text(key), once.text(value)]));
}
