// Makes the stored form of an object that is replaced or patched: what the server owns stays, a write through one path
// (the object, its status) leaves the other part alone, and the generation counts changes of the specification.
import type { ApiError } from "../http/api-error.ts";
import { badRequest, conflict, invalid, modifiedConflict } from "../http/api-error.ts";
import type { WriteRequest } from "../http/write-request.ts";
import { kindRules } from "../kinds/kind-rules.ts";
import type { ResourceKind } from "../kinds/resource-kind.ts";
import type { FieldError } from "../schema/field-errors.ts";
import { invalidValue } from "../schema/field-errors.ts";
import { asJsonObject, equalJson, type JsonObject } from "./json.ts";
import { setNamespace } from "./new-object.ts";
import { type BodyForm, readFields, validateObject } from "./object-admission.ts";
import type { StoredObject } from "./stored-object.ts";

/** The object as it will be stored, its managedFields as given. It takes the input over. Throws 400, 409 or 422. */
export function changedObject(
  request: WriteRequest,
  live: StoredObject,
  input: JsonObject,
  now: string,
  form: BodyForm,
): StoredObject {
  const { kind } = request;
  readFields(request, input, form);
  checkPreconditions(request, live, asJsonObject(input["metadata"]), form);
  const object = withoutForeignPart(request, live, input);
  object["metadata"] = keptMetadata(request, live, asJsonObject(object["metadata"]));
  kindRules(kind).complete?.(object, now);
  const changed = object as StoredObject;
  validateObject(request, object, live, finalizerErrors(live, changed));
  if (kind.hasGeneration && !equalJson(specificationOf(kind, changed), specificationOf(kind, live)))
    changed.metadata.generation = (live.metadata.generation ?? 0) + 1;
  return changed;
}

function checkPreconditions(request: WriteRequest, live: StoredObject, given: JsonObject, form: BodyForm): void {
  const { kind, address, subresource } = request;
  if (given["name"] !== address.name)
    throw badRequest(`the name of the object (${given["name"]}) does not match the name on the URL (${address.name})`);
  const { uid, resourceVersion } = given;
  const isOther = Boolean(uid) && uid !== live.metadata.uid;
  if (isOther && form === "object") throw uidConflict(kind, address.name, String(uid), live.metadata.uid);
  if (resourceVersion && resourceVersion !== live.metadata.resourceVersion) throw modifiedConflict(kind, address.name);
  // Of a patch the uid is a field like others. The status of a custom resource is written without a look at it.
  if (isOther && !(kind.custom && subresource === "status"))
    throw invalid(kind, address.name, [invalidValue("metadata.uid", uid, "field is immutable")]);
  if (!resourceVersion && form === "object" && !kind.unconditionalUpdate) throw versionRequired(kind, address.name);
}

function versionRequired(kind: ResourceKind, name: string): ApiError {
  const message = "Invalid value: 0: must be specified for an update";
  return invalid(kind, name, [{ field: "metadata.resourceVersion", reason: "FieldValueInvalid", message }]);
}

/** 409: the object is another one of the same name. */
export function uidConflict(kind: ResourceKind, name: string, wanted: string, actual: string): ApiError {
  const why = `Precondition failed: UID in precondition: ${wanted}, UID in object meta: ${actual}`;
  return conflict(kind, name, why);
}

function withoutForeignPart({ kind, subresource }: WriteRequest, live: StoredObject, input: JsonObject): JsonObject {
  if (subresource === "status") {
    const { managedFields } = asJsonObject(input["metadata"]);
    return { ...live, metadata: { ...live.metadata, managedFields }, status: input["status"] };
  }
  if (!kind.hasStatus) return input;
  const { status: _, ...rest } = input;
  return live["status"] === undefined ? rest : { ...rest, status: live["status"] };
}

const SERVER_OWNED = [
  "uid",
  "resourceVersion",
  "creationTimestamp",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "generation",
  "generateName",
] as const;

function keptMetadata(request: WriteRequest, live: StoredObject, given: JsonObject): JsonObject {
  const metadata: JsonObject = { ...given };
  setNamespace(request, metadata);
  for (const field of SERVER_OWNED) {
    delete metadata[field];
    if (live.metadata[field] !== undefined) metadata[field] = live.metadata[field];
  }
  return metadata;
}

function finalizerErrors(live: StoredObject, changed: StoredObject): FieldError[] {
  if (live.metadata.deletionTimestamp === undefined) return [];
  const added = (changed.metadata.finalizers ?? []).filter((each) => !live.metadata.finalizers?.includes(each));
  if (added.length === 0) return [];
  const message = `Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers ${JSON.stringify(added)}`;
  return [{ field: "metadata.finalizers", reason: "FieldValueForbidden", message }];
}

function specificationOf(kind: ResourceKind, object: StoredObject): JsonObject {
  const { metadata: _metadata, status, ...specification } = object;
  return kind.hasStatus ? specification : { ...specification, status };
}
