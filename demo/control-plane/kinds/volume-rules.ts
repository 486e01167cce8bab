// What kube-apiserver asks of volumes, their classes and their attachments beyond the schema: what must be there, and what never changes.
import type { FieldError } from "../schema/field-errors.ts";
import { changedErrors, forbiddenField, invalidValue, required, unsupported } from "../schema/field-errors.ts";
import { asJsonObject, equalJson, type JsonObject } from "../store/json.ts";

export const ACCESS_MODES = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const SOURCES = ["csi", "local", "hostPath", "nfs"];
const CLASS_FIELDS = ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"];

export function volumeErrors(object: JsonObject, before: JsonObject | undefined): FieldError[] {
  const spec = asJsonObject(object["spec"]);
  return before === undefined ? newVolumeErrors(spec) : changedVolumeErrors(spec, asJsonObject(before["spec"]));
}

function newVolumeErrors(spec: JsonObject): FieldError[] {
  const { capacity, accessModes } = spec;
  const sizes = Object.keys(asJsonObject(capacity));
  return [
    ...accessModeErrors(accessModes, ""),
    ...(sizes.length === 0 ? [required("spec.capacity")] : []),
    ...(sizes.length === 1 && sizes[0] === "storage" ? [] : [unsupported("spec.capacity", capacity, ["storage"])]),
    ...(SOURCES.some((source) => spec[source] !== undefined) ? [] : [required("spec", "must specify a volume type")]),
  ];
}

function changedVolumeErrors(spec: JsonObject, before: JsonObject): FieldError[] {
  const sourceOf = (each: JsonObject): JsonObject => Object.fromEntries(SOURCES.map((name) => [name, each[name]]));
  const { nodeAffinity } = before;
  const why = "field is immutable, except for updating from beta label to GA";
  return [
    ...(equalJson(sourceOf(spec), sourceOf(before))
      ? []
      : [forbiddenField("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")]),
    ...changedErrors("volumeMode", spec["volumeMode"], before["volumeMode"]),
    // One that has none may get one.
    ...(nodeAffinity === undefined || equalJson(spec["nodeAffinity"], nodeAffinity)
      ? []
      : [invalidValue("nodeAffinity", spec["nodeAffinity"], why)]),
  ];
}

/** `detail`: what is said where there is no mode. */
export function accessModeErrors(accessModes: unknown, detail: string): FieldError[] {
  if (!Array.isArray(accessModes) || accessModes.length === 0) return [required("spec.accessModes", detail)];
  return accessModes
    .filter((mode) => !ACCESS_MODES.includes(String(mode)))
    .map((mode) => unsupported("spec.accessModes", mode, ACCESS_MODES));
}

export function classErrors(object: JsonObject, before: JsonObject | undefined): FieldError[] {
  return before === undefined
    ? []
    : CLASS_FIELDS.flatMap((field) => changedErrors(field, object[field], before[field]));
}

export function attachmentErrors(object: JsonObject, before: JsonObject | undefined): FieldError[] {
  return before === undefined ? [] : changedErrors("spec", object["spec"], before["spec"]);
}
