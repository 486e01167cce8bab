// The kinds that are served from the start: those of Kubernetes that Tidemark reads or writes.
import { builtInColumns } from "../lists/built-in-columns.ts";
import { builtInSchema } from "../schema/built-in-schemas.ts";
import type { ResourceKind } from "./resource-kind.ts";

interface Description {
  readonly group: string;
  readonly kind: string;
  readonly plural: string;
  readonly shortNames?: readonly string[];
  readonly scope: "Namespaced" | "Cluster";
  readonly status?: true;
  readonly generation?: true;
  readonly conditionalUpdate?: true;
  readonly selectableFields?: readonly string[];
}

const STORAGE = "storage.k8s.io";

const EVENT_FIELDS = [
  ...["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"].map(
    (f) => `involvedObject.${f}`,
  ),
  "reason",
  "reportingComponent",
  "source",
  "type",
];

const DESCRIPTIONS: readonly Description[] = [
  {
    group: "",
    kind: "Namespace",
    plural: "namespaces",
    shortNames: ["ns"],
    scope: "Cluster",
    status: true,
    selectableFields: ["status.phase"],
  },
  {
    group: "",
    kind: "Node",
    plural: "nodes",
    shortNames: ["no"],
    scope: "Cluster",
    status: true,
    selectableFields: ["spec.unschedulable"],
  },
  {
    group: "",
    kind: "PersistentVolume",
    plural: "persistentvolumes",
    shortNames: ["pv"],
    scope: "Cluster",
    status: true,
  },
  {
    group: "",
    kind: "PersistentVolumeClaim",
    plural: "persistentvolumeclaims",
    shortNames: ["pvc"],
    scope: "Namespaced",
    status: true,
  },
  {
    group: "",
    kind: "Pod",
    plural: "pods",
    shortNames: ["po"],
    scope: "Namespaced",
    status: true,
    selectableFields: ["spec.nodeName", "status.phase"],
  },
  { group: "", kind: "ConfigMap", plural: "configmaps", shortNames: ["cm"], scope: "Namespaced" },
  {
    group: "",
    kind: "ResourceQuota",
    plural: "resourcequotas",
    shortNames: ["quota"],
    scope: "Namespaced",
    status: true,
  },
  { group: "", kind: "Secret", plural: "secrets", scope: "Namespaced", selectableFields: ["type"] },
  {
    group: "",
    kind: "Event",
    plural: "events",
    shortNames: ["ev"],
    scope: "Namespaced",
    selectableFields: EVENT_FIELDS,
  },
  { group: STORAGE, kind: "StorageClass", plural: "storageclasses", shortNames: ["sc"], scope: "Cluster" },
  { group: STORAGE, kind: "CSIDriver", plural: "csidrivers", scope: "Cluster" },
  { group: STORAGE, kind: "CSINode", plural: "csinodes", scope: "Cluster" },
  { group: STORAGE, kind: "VolumeAttachment", plural: "volumeattachments", scope: "Cluster", status: true },
  { group: STORAGE, kind: "CSIStorageCapacity", plural: "csistoragecapacities", scope: "Namespaced" },
  { group: "coordination.k8s.io", kind: "Lease", plural: "leases", scope: "Namespaced", conditionalUpdate: true },
  {
    group: "admissionregistration.k8s.io",
    kind: "MutatingWebhookConfiguration",
    plural: "mutatingwebhookconfigurations",
    scope: "Cluster",
    generation: true,
  },
  {
    group: "admissionregistration.k8s.io",
    kind: "ValidatingWebhookConfiguration",
    plural: "validatingwebhookconfigurations",
    scope: "Cluster",
    generation: true,
  },
  {
    group: "apiextensions.k8s.io",
    kind: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
    shortNames: ["crd", "crds"],
    scope: "Cluster",
    status: true,
    generation: true,
    conditionalUpdate: true,
  },
];

export const BUILT_IN_KINDS: readonly ResourceKind[] = DESCRIPTIONS.map((description) => ({
  group: description.group,
  version: "v1",
  kind: description.kind,
  listKind: `${description.kind}List`,
  plural: description.plural,
  singular: description.kind.toLowerCase(),
  shortNames: description.shortNames ?? [],
  categories:
    description.kind === "CustomResourceDefinition" ? ["api-extensions"] : description.kind === "Pod" ? ["all"] : [],
  namespaced: description.scope === "Namespaced",
  hasStatus: description.status ?? false,
  hasGeneration: description.generation ?? false,
  unconditionalUpdate: !description.conditionalUpdate,
  custom: false,
  schema: builtInSchema(description.kind),
  rules: new Map(),
  columns: builtInColumns(description.kind),
  selectableFields: description.selectableFields ?? [],
}));

/** The kind of this name in the core or a built-in group; it is there by construction. */
export function builtInKind(name: string): ResourceKind {
  const kind = BUILT_IN_KINDS.find((each) => each.kind === name);
  if (kind === undefined) throw new Error(`${name} is not a built-in kind`);
  return kind;
}
