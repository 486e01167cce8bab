// What holds for single built-in kinds beyond their schema: fields that the server itself fills in, and further checks.
import type { FieldError } from "../schema/field-errors.ts";
import { changedErrors } from "../schema/field-errors.ts";
import { asJsonObject, type JsonObject } from "../store/json.ts";
import { claimErrors, completeClaim } from "./claim-rules.ts";
import { customKind, type DefinitionSpec } from "./custom-kind.ts";
import { podErrors } from "./pod-rules.ts";
import { attachmentErrors, classErrors, volumeErrors } from "./volume-rules.ts";

interface KindRules {
  /** Fills in what the server owns, in place, before validation. */
  readonly complete?: (object: JsonObject, now: string) => void;
  readonly errors?: (object: JsonObject, before: JsonObject | undefined) => FieldError[];
}

/** The finalizer that a Namespace carries in its spec until its content is gone. */
export const NAMESPACE_FINALIZER = "kubernetes";
/** The finalizer of a CustomResourceDefinition whose objects are being deleted. */
export const DEFINITION_FINALIZER = "customresourcecleanup.apiextensions.k8s.io";
const NAME_LABEL = "kubernetes.io/metadata.name";

const RULES: Readonly<Record<string, KindRules>> = {
  Namespace: { complete: completeNamespace },
  PersistentVolume: { complete: completeStatus, errors: volumeErrors },
  PersistentVolumeClaim: {
    complete: (object) => {
      completeStatus(object);
      completeClaim(object);
    },
    errors: claimErrors,
  },
  Pod: { complete: completeStatus, errors: podErrors },
  StorageClass: { errors: classErrors },
  VolumeAttachment: { errors: attachmentErrors },
  Secret: { complete: completeSecret },
  CSIStorageCapacity: { errors: capacityErrors },
  CustomResourceDefinition: { complete: completeDefinition, errors: (object) => customKind(object).errors },
};

/** Rules of a built-in kind; custom kinds have none, whatever their name. */
export function kindRules(kind: { kind: string; custom: boolean }): KindRules {
  return (kind.custom ? undefined : RULES[kind.kind]) ?? {};
}

// The phase is a default of the status, which creation leaves absent.
function completeStatus(object: JsonObject): void {
  const status = asJsonObject(object["status"]);
  object["status"] = { ...status, phase: status["phase"] ?? "Pending" };
}

function completeNamespace(object: JsonObject): void {
  const metadata = asJsonObject(object["metadata"]);
  metadata["labels"] = { ...asJsonObject(metadata["labels"]), [NAME_LABEL]: metadata["name"] };
  const status = asJsonObject(object["status"]);
  object["status"] = { ...status, phase: status["phase"] ?? "Active" };
  object["spec"] = { finalizers: [NAMESPACE_FINALIZER], ...asJsonObject(object["spec"]) };
}

function completeSecret(object: JsonObject): void {
  const { stringData } = object;
  if (stringData === undefined) return;
  const data = { ...asJsonObject(object["data"]) };
  for (const [key, value] of Object.entries(asJsonObject(stringData)))
    data[key] = Buffer.from(String(value)).toString("base64");
  object["data"] = data;
  delete object["stringData"];
}

function completeDefinition(object: JsonObject, now: string): void {
  const spec = object["spec"] as DefinitionSpec | undefined;
  const names = spec?.names;
  if (spec === undefined || typeof names?.kind !== "string" || !Array.isArray(spec.versions)) return;
  const accepted = { listKind: `${names.kind}List`, singular: names.kind.toLowerCase(), ...names };
  const before = asJsonObject(object["status"]);
  const status = {
    ...before,
    acceptedNames: accepted,
    storedVersions: spec.versions
      .filter((version) => asJsonObject(version)["storage"] === true)
      .map(({ name }) => name),
    conditions: before["conditions"] ?? [
      condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
      condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
    ],
  };
  object["spec"] = { ...spec, names: accepted };
  object["status"] = status;
}

function condition(type: string, reason: string, message: string, now: string): JsonObject {
  return { type, status: "True", lastTransitionTime: now, reason, message };
}

// What the driver was asked for never changes, only what it answered.
function capacityErrors(object: JsonObject, before: JsonObject | undefined): FieldError[] {
  if (before === undefined) return [];
  return ["nodeTopology", "storageClassName"].flatMap((field) => changedErrors(field, object[field], before[field]));
}
