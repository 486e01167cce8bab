// What kube-apiserver asks of a claim beyond the schema, and how it reads the two fields that name what a volume is copied from. Whether a
// class lets a claim grow is asked by claim-resize.ts: that needs the class.
import { readQuantity } from "../../../src/contracts/quantities/quantity.ts";
import type { FieldError } from "../schema/field-errors.ts";
import { forbiddenField, invalidValue, required } from "../schema/field-errors.ts";
import { asJsonObject, equalJson, type JsonObject } from "../store/json.ts";
import { accessModeErrors } from "./volume-rules.ts";

const SNAPSHOTS = "snapshot.storage.k8s.io";
const STORAGE = "spec.resources[storage]";
const IMMUTABLE =
  "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/** A dataSource of a kind that it cannot be is dropped; dataSource and dataSourceRef become the same. */
export function completeClaim(object: JsonObject): void {
  const spec = asJsonObject(object["spec"]);
  const { dataSource, dataSourceRef } = spec;
  if (dataSource !== undefined && !isOldSource(asJsonObject(dataSource))) delete spec["dataSource"];
  if (spec["dataSource"] !== undefined && dataSourceRef === undefined) spec["dataSourceRef"] = spec["dataSource"];
  if (dataSourceRef !== undefined && dataSource === undefined && !asJsonObject(dataSourceRef)["namespace"])
    spec["dataSource"] = dataSourceRef;
}

function isOldSource({ apiGroup, kind }: JsonObject): boolean {
  return apiGroup ? apiGroup === SNAPSHOTS && kind === "VolumeSnapshot" : kind === "PersistentVolumeClaim";
}

export function claimErrors(object: JsonObject, before: JsonObject | undefined): FieldError[] {
  return before === undefined ? newClaimErrors(asJsonObject(object["spec"])) : changedClaimErrors(object, before);
}

function newClaimErrors(spec: JsonObject): FieldError[] {
  const bytes = requestedBytes(spec);
  const modes = accessModeErrors(spec["accessModes"], "at least 1 access mode is required");
  if (bytes === undefined) return [...modes, required(STORAGE)];
  return bytes > 0 ? modes : [...modes, invalidValue(STORAGE, requestOf(spec), "must be greater than zero")];
}

function changedClaimErrors(object: JsonObject, before: JsonObject): FieldError[] {
  const [spec, old] = [asJsonObject(object["spec"]), asJsonObject(before["spec"])];
  if (!equalJson(fixedPart(spec, before), fixedPart(old, before))) return [forbiddenField("spec", IMMUTABLE)];
  const [bytes, bytesBefore] = [requestedBytes(spec) ?? 0, requestedBytes(old) ?? 0];
  const capacity = readQuantity(textOf(asJsonObject(asJsonObject(before["status"])["capacity"])["storage"])) ?? 0;
  return bytes < bytesBefore && bytes < capacity
    ? [forbiddenField("spec.resources.requests.storage", "field can not be less than status.capacity")]
    : [];
}

// A bound claim's request may change; a claim without a volume may get one.
function fixedPart(spec: JsonObject, before: JsonObject): JsonObject {
  const { volumeAttributesClassName: _class, volumeName, resources, ...rest } = spec;
  const { requests, ...others } = asJsonObject(resources);
  return {
    ...rest,
    ...(asJsonObject(before["spec"])["volumeName"] ? { volumeName } : {}),
    resources: isBound(before) ? others : { ...others, requests },
  };
}

export function isBound(claim: JsonObject): boolean {
  return asJsonObject(claim["status"])["phase"] === "Bound";
}

function requestOf(spec: JsonObject): unknown {
  return asJsonObject(asJsonObject(spec["resources"])["requests"])["storage"];
}

/** Undefined: it asks for none. */
export function requestedBytes(spec: JsonObject): number | undefined {
  return readQuantity(textOf(requestOf(spec)));
}

function textOf(value: unknown): string | undefined {
  return value === undefined ? undefined : String(value);
}
