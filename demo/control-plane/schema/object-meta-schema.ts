// The schema of metadata, the same for every kind.
import {
  atomic,
  atomicList,
  fields,
  flag,
  integer,
  keyedList,
  type Schema,
  setOf,
  stringMap,
  text,
  time,
} from "./schema.ts";

const ownerReference = atomic(
  fields({ apiVersion: text, kind: text, name: text, uid: text, controller: flag, blockOwnerDeletion: flag }, [
    "apiVersion",
    "kind",
    "name",
    "uid",
  ]),
);

const managedFieldsEntry = fields({
  manager: text,
  operation: text,
  apiVersion: text,
  time,
  fieldsType: text,
  fieldsV1: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
  subresource: text,
});

export const objectMetaSchema: Schema = {
  ...fields({
    name: text,
    generateName: text,
    namespace: text,
    selfLink: text,
    uid: text,
    resourceVersion: text,
    generation: integer,
    creationTimestamp: { ...time, nullable: true },
    deletionTimestamp: { ...time, nullable: true },
    deletionGracePeriodSeconds: integer,
    labels: stringMap,
    annotations: stringMap,
    ownerReferences: keyedList(ownerReference, "uid"),
    finalizers: setOf(text),
    managedFields: atomicList(managedFieldsEntry),
  }),
  description: "Standard object's metadata.",
};
