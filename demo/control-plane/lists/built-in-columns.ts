// The columns of `kubectl get` for built-in kinds, under the names that Kubernetes gives them.

import { fieldAt, parseJsonPath } from "../apply/json-path.ts";
import { asJsonObject, isJsonObject } from "../store/json.ts";
import type { StoredObject } from "../store/stored-object.ts";
import { formatAge } from "./age.ts";
import { type CellType, type PrinterColumn, pathCell } from "./printer-column.ts";

const AGE = column("Age", ".metadata.creationTimestamp", "date");
const UNSET = "<unset>";
const ACCESS_MODES: Readonly<Record<string, string>> = {
  ReadWriteOnce: "RWO",
  ReadOnlyMany: "ROX",
  ReadWriteMany: "RWX",
  ReadWriteOncePod: "RWOP",
};

/** The columns after the name's. */
export function builtInColumns(kind: string): readonly PrinterColumn[] {
  return COLUMNS[kind] ?? [AGE];
}

function column(name: string, path: string, type: CellType = "string", priority = 0): PrinterColumn {
  return { name, type, priority, cell: pathCell(parseJsonPath(path), type) };
}

function computed(name: string, cell: (object: StoredObject, nowMs: number) => unknown, priority = 0): PrinterColumn {
  return { name, type: "string", priority, cell };
}

function textAt(object: StoredObject, ...path: string[]): string {
  const value = fieldAt(object, path);
  return value === undefined || value === null ? "" : String(value);
}

function orUnset(...path: string[]): PrinterColumn["cell"] {
  return (object) => textAt(object, ...path) || UNSET;
}

function accessModes(...path: string[]): PrinterColumn["cell"] {
  return (object) => {
    const modes = fieldAt(object, path);
    return Array.isArray(modes) ? modes.map((mode) => ACCESS_MODES[String(mode)] ?? String(mode)).join(",") : "";
  };
}

function phase(object: StoredObject): string {
  return object.metadata.deletionTimestamp === undefined ? textAt(object, "status", "phase") : "Terminating";
}

function claimReference(object: StoredObject): string {
  const reference = fieldAt(object, ["spec", "claimRef"]);
  return isJsonObject(reference) ? `${String(reference["namespace"])}/${String(reference["name"])}` : "";
}

function nodeStatus(object: StoredObject): string {
  const conditions = fieldAt(object, ["status", "conditions"]);
  const list: unknown[] = Array.isArray(conditions) ? conditions : [];
  const ready = list.find((each) => asJsonObject(each)["type"] === "Ready");
  const state = ready === undefined ? "Unknown" : asJsonObject(ready)["status"] === "True" ? "Ready" : "NotReady";
  return fieldAt(object, ["spec", "unschedulable"]) === true ? `${state},SchedulingDisabled` : state;
}

function lastSeen(object: StoredObject, nowMs: number): string {
  const times = [["series", "lastObservedTime"], ["lastTimestamp"], ["eventTime"], ["metadata", "creationTimestamp"]];
  const seen = times.map((path) => textAt(object, ...path)).find((value) => value !== "");
  return seen === undefined ? "<unknown>" : formatAge(seen, nowMs);
}

function involvedObject(object: StoredObject): string {
  return `${textAt(object, "involvedObject", "kind").toLowerCase()}/${textAt(object, "involvedObject", "name")}`;
}

function readyContainers(object: StoredObject): string {
  const wanted = fieldAt(object, ["spec", "containers"]);
  const states = fieldAt(object, ["status", "containerStatuses"]);
  const ready = Array.isArray(states) ? states.filter((each) => asJsonObject(each)["ready"] === true).length : 0;
  return `${ready}/${Array.isArray(wanted) ? wanted.length : 0}`;
}

function storageClassName(object: StoredObject): string {
  const isDefault = object.metadata.annotations?.["storageclass.kubernetes.io/is-default-class"] === "true";
  return isDefault ? `${object.metadata.name} (default)` : object.metadata.name;
}

function countOf(...path: string[]): PrinterColumn["cell"] {
  return (object) => {
    const value = fieldAt(object, path);
    return String(Array.isArray(value) ? value.length : Object.keys(asJsonObject(value)).length);
  };
}

const COLUMNS: Readonly<Record<string, readonly PrinterColumn[]>> = {
  Namespace: [computed("Status", phase), AGE],
  Node: [computed("Status", nodeStatus), column("Version", ".status.nodeInfo.kubeletVersion"), AGE],
  PersistentVolume: [
    column("Capacity", ".spec.capacity.storage"),
    computed("Access Modes", accessModes("spec", "accessModes")),
    column("Reclaim Policy", ".spec.persistentVolumeReclaimPolicy"),
    computed("Status", phase),
    computed("Claim", claimReference),
    computed("StorageClass", (object) => textAt(object, "spec", "storageClassName")),
    computed("VolumeAttributesClass", orUnset("spec", "volumeAttributesClassName")),
    computed("Reason", (object) => textAt(object, "status", "reason")),
    AGE,
    computed("VolumeMode", orUnset("spec", "volumeMode"), 1),
  ],
  PersistentVolumeClaim: [
    computed("Status", phase),
    computed("Volume", (object) => textAt(object, "spec", "volumeName")),
    computed("Capacity", (object) => textAt(object, "status", "capacity", "storage")),
    computed("Access Modes", accessModes("status", "accessModes")),
    computed("StorageClass", (object) => textAt(object, "spec", "storageClassName")),
    computed("VolumeAttributesClass", orUnset("spec", "volumeAttributesClassName")),
    AGE,
    computed("VolumeMode", orUnset("spec", "volumeMode"), 1),
  ],
  Pod: [
    computed("Ready", readyContainers),
    computed("Status", (object) => phase(object) || "Unknown"),
    column("Node", ".spec.nodeName", "string", 1),
    AGE,
  ],
  ConfigMap: [computed("Data", countOf("data")), AGE],
  Secret: [column("Type", ".type"), computed("Data", countOf("data")), AGE],
  Event: [
    computed("Last Seen", lastSeen),
    column("Type", ".type"),
    column("Reason", ".reason"),
    computed("Object", involvedObject),
    column("Source", ".source.component", "string", 1),
    column("Message", ".message"),
    column("Count", ".count", "integer", 1),
    column("Name", ".metadata.name", "string", 1),
  ],
  StorageClass: [
    column("Provisioner", ".provisioner"),
    computed("ReclaimPolicy", (object) => textAt(object, "reclaimPolicy") || "Delete"),
    computed("VolumeBindingMode", (object) => textAt(object, "volumeBindingMode") || "Immediate"),
    computed("AllowVolumeExpansion", (object) => textAt(object, "allowVolumeExpansion") || "false"),
    AGE,
  ],
  CSIDriver: [
    column("AttachRequired", ".spec.attachRequired", "boolean"),
    column("StorageCapacity", ".spec.storageCapacity", "boolean"),
    AGE,
  ],
  CSINode: [computed("Drivers", countOf("spec", "drivers")), AGE],
  VolumeAttachment: [
    column("Attacher", ".spec.attacher"),
    column("PV", ".spec.source.persistentVolumeName"),
    column("Node", ".spec.nodeName"),
    column("Attached", ".status.attached", "boolean"),
    AGE,
  ],
  CSIStorageCapacity: [column("StorageClassName", ".storageClassName"), column("Capacity", ".capacity"), AGE],
  Lease: [column("Holder", ".spec.holderIdentity"), AGE],
  CustomResourceDefinition: [computed("Created At", (object) => object.metadata.creationTimestamp)],
};

/** What the name column shows; a default class says that it is one. */
export function displayName(object: StoredObject): string {
  return object.kind === "StorageClass" ? storageClassName(object) : object.metadata.name;
}
