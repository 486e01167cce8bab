// The built-in kinds that Tidemark reads and writes: how each is addressed, and its type, which is client-node's as JSON carries it.
import type {
  CoreV1Event,
  V1ConfigMap,
  V1CSIDriver,
  V1CSINode,
  V1CSIStorageCapacity,
  V1CustomResourceDefinition,
  V1EndpointSlice,
  V1Lease,
  V1MutatingWebhookConfiguration,
  V1Namespace,
  V1Node,
  V1PersistentVolume,
  V1PersistentVolumeClaim,
  V1Pod,
  V1ResourceQuota,
  V1Secret,
  V1StorageClass,
  V1SubjectAccessReview,
  V1TokenReview,
  V1ValidatingAdmissionPolicy,
  V1ValidatingAdmissionPolicyBinding,
  V1ValidatingWebhookConfiguration,
  V1VolumeAttachment,
} from "@kubernetes/client-node";
import type { KubeObject, Resource } from "./object.ts";

/**
 * As JSON carries it: a time is text. `Words` has the fields that client-node has as any text and Kubernetes as one of a few words: a
 * comparison with another one does not compile.
 */
type Json<T, Words> = T extends Date
  ? string
  : T extends object
    ? { [K in keyof T]: (K extends keyof Words ? Worded<T[K], Words[K], Words> : Json<T[K], Words>) | Missing<T, K> }
    : T;

/** What a field that may be left out may also be. */
type Missing<T, K extends keyof T> = T extends Required<Pick<T, K>> ? never : undefined;

/** A field of that name may be something else elsewhere in the kind. */
type Worded<V, Word, Words> = V extends string ? Word : V extends string[] ? Word[] : Json<V, Words>;

/** `Always`: what no object of the kind is without, although client-node has it as optional. */
type BuiltIn<T, Words = unknown, Always extends keyof T = never> = KubeObject &
  Json<Omit<T, keyof KubeObject | Always> & { [K in Always]-?: NonNullable<T[K]> }, Words>;

export type AccessMode = "ReadWriteOnce" | "ReadOnlyMany" | "ReadWriteMany" | "ReadWriteOncePod";

interface VolumeWords {
  accessModes: AccessMode;
  volumeMode: "Filesystem" | "Block";
}

type ReclaimPolicy = "Retain" | "Delete";

interface ConditionWords {
  status: "True" | "False" | "Unknown";
}

interface SelectorWords {
  operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
}

export type Namespace = BuiltIn<V1Namespace, { phase: "Active" | "Terminating" }>;

export type ConfigMap = BuiltIn<V1ConfigMap>;

/** Of storage it limits the keys of storageKeyOf. */
export type ResourceQuota = BuiltIn<V1ResourceQuota>;

export type Secret = BuiltIn<V1Secret>;

/** Asked, not stored: the answer comes with the create. */
export type TokenReview = BuiltIn<V1TokenReview>;

/** Asked, not stored, like a TokenReview. */
export type SubjectAccessReview = BuiltIn<V1SubjectAccessReview>;

export type Node = BuiltIn<V1Node, ConditionWords>;

export type PersistentVolumeClaim = BuiltIn<
  V1PersistentVolumeClaim,
  VolumeWords & SelectorWords & ConditionWords & { phase: "Pending" | "Bound" | "Lost" },
  "spec"
>;

export type PersistentVolume = BuiltIn<
  V1PersistentVolume,
  VolumeWords & {
    persistentVolumeReclaimPolicy: ReclaimPolicy;
    phase: "Pending" | "Available" | "Bound" | "Released" | "Failed";
  },
  "spec"
>;

export type CsiVolumeSource = NonNullable<PersistentVolume["spec"]["csi"]>;

type VolumeNodeAffinity = NonNullable<PersistentVolume["spec"]["nodeAffinity"]>;

export type NodeSelectorTerm = NonNullable<VolumeNodeAffinity["required"]>["nodeSelectorTerms"][number];

export type StorageClass = BuiltIn<
  V1StorageClass,
  { reclaimPolicy: ReclaimPolicy; volumeBindingMode: "Immediate" | "WaitForFirstConsumer" }
>;

export type CSINode = BuiltIn<V1CSINode>;

/**
 * What a driver's provisioner says that one of its classes still has, where nodes fit the topology. Without one it is of no node, with an
 * empty one of all.
 */
export type CSIStorageCapacity = BuiltIn<V1CSIStorageCapacity, SelectorWords>;

export type CSIDriver = BuiltIn<
  V1CSIDriver,
  { fsGroupPolicy: "ReadWriteOnceWithFSType" | "File" | "None"; volumeLifecycleModes: "Persistent" | "Ephemeral" }
>;

/** The intent to have a volume attached to a node; the attacher of the volume's driver carries it out. */
export type VolumeAttachment = BuiltIn<V1VolumeAttachment>;

/** Its times are MicroTimes: RFC 3339 with exactly six digits of fraction. */
export type Lease = BuiltIn<V1Lease>;

export type Event = BuiltIn<CoreV1Event, { type: "Normal" | "Warning" }>;

/** Where the pods of a Service are. All addresses of an endpoint lead to the same pod. */
export type EndpointSlice = BuiltIn<V1EndpointSlice>;

export type Pod = BuiltIn<
  V1Pod,
  ConditionWords & { phase: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown" },
  "spec"
>;

export type PodVolume = NonNullable<Pod["spec"]["volumes"]>[number];

export type MutatingWebhookConfiguration = BuiltIn<V1MutatingWebhookConfiguration, SelectorWords>;

export type ValidatingWebhookConfiguration = BuiltIn<V1ValidatingWebhookConfiguration, SelectorWords>;

export type ValidatingAdmissionPolicy = BuiltIn<V1ValidatingAdmissionPolicy, { failurePolicy: "Fail" | "Ignore" }>;

export type ValidatingAdmissionPolicyBinding = BuiltIn<V1ValidatingAdmissionPolicyBinding>;

export type CustomResourceDefinition = BuiltIn<
  V1CustomResourceDefinition,
  ConditionWords & { scope: "Namespaced" | "Cluster" }
>;

function core<T extends KubeObject>(plural: string, kind: string, namespaced: boolean): Resource<T> {
  return { group: "", version: "v1", plural, kind, namespaced };
}

function storage<T extends KubeObject>(plural: string, kind: string): Resource<T> {
  return { group: "storage.k8s.io", version: "v1", plural, kind, namespaced: false };
}

export const NAMESPACES = core<Namespace>("namespaces", "Namespace", false);
export const CONFIG_MAPS = core<ConfigMap>("configmaps", "ConfigMap", true);
export const RESOURCE_QUOTAS = core<ResourceQuota>("resourcequotas", "ResourceQuota", true);
export const SECRETS = core<Secret>("secrets", "Secret", true);
export const NODES = core<Node>("nodes", "Node", false);
export const PODS = core<Pod>("pods", "Pod", true);
export const EVENTS = core<Event>("events", "Event", true);
export const PERSISTENT_VOLUME_CLAIMS = core<PersistentVolumeClaim>(
  "persistentvolumeclaims",
  "PersistentVolumeClaim",
  true,
);
export const PERSISTENT_VOLUMES = core<PersistentVolume>("persistentvolumes", "PersistentVolume", false);
export const STORAGE_CLASSES = storage<StorageClass>("storageclasses", "StorageClass");
export const CSI_NODES = storage<CSINode>("csinodes", "CSINode");
export const CSI_DRIVERS = storage<CSIDriver>("csidrivers", "CSIDriver");
export const VOLUME_ATTACHMENTS = storage<VolumeAttachment>("volumeattachments", "VolumeAttachment");

export const CSI_STORAGE_CAPACITIES: Resource<CSIStorageCapacity> = {
  group: "storage.k8s.io",
  version: "v1",
  plural: "csistoragecapacities",
  kind: "CSIStorageCapacity",
  namespaced: true,
};

export const TOKEN_REVIEWS: Resource<TokenReview> = {
  group: "authentication.k8s.io",
  version: "v1",
  plural: "tokenreviews",
  kind: "TokenReview",
  namespaced: false,
};

export const SUBJECT_ACCESS_REVIEWS: Resource<SubjectAccessReview> = {
  group: "authorization.k8s.io",
  version: "v1",
  plural: "subjectaccessreviews",
  kind: "SubjectAccessReview",
  namespaced: false,
};

export const LEASES: Resource<Lease> = {
  group: "coordination.k8s.io",
  version: "v1",
  plural: "leases",
  kind: "Lease",
  namespaced: true,
};

export const ENDPOINT_SLICES: Resource<EndpointSlice> = {
  group: "discovery.k8s.io",
  version: "v1",
  plural: "endpointslices",
  kind: "EndpointSlice",
  namespaced: true,
};

export const MUTATING_WEBHOOK_CONFIGURATIONS: Resource<MutatingWebhookConfiguration> = {
  group: "admissionregistration.k8s.io",
  version: "v1",
  plural: "mutatingwebhookconfigurations",
  kind: "MutatingWebhookConfiguration",
  namespaced: false,
};

export const VALIDATING_WEBHOOK_CONFIGURATIONS: Resource<ValidatingWebhookConfiguration> = {
  group: "admissionregistration.k8s.io",
  version: "v1",
  plural: "validatingwebhookconfigurations",
  kind: "ValidatingWebhookConfiguration",
  namespaced: false,
};

export const VALIDATING_ADMISSION_POLICIES: Resource<ValidatingAdmissionPolicy> = {
  group: "admissionregistration.k8s.io",
  version: "v1",
  plural: "validatingadmissionpolicies",
  kind: "ValidatingAdmissionPolicy",
  namespaced: false,
};

export const VALIDATING_ADMISSION_POLICY_BINDINGS: Resource<ValidatingAdmissionPolicyBinding> = {
  group: "admissionregistration.k8s.io",
  version: "v1",
  plural: "validatingadmissionpolicybindings",
  kind: "ValidatingAdmissionPolicyBinding",
  namespaced: false,
};

export const CUSTOM_RESOURCE_DEFINITIONS: Resource<CustomResourceDefinition> = {
  group: "apiextensions.k8s.io",
  version: "v1",
  plural: "customresourcedefinitions",
  kind: "CustomResourceDefinition",
  namespaced: false,
};

// Names that Kubernetes derives from others: the claim of a pod's ephemeral volume, and the key of storage in a ResourceQuota. Pure.

/** Its name, which is the pod's own and the volume's in its spec. */
export function ephemeralClaimName(podName: string, volumeName: string): string {
  return `${podName}-${volumeName}`;
}

const KEY = "requests.storage";

/** Of all claims, or of those of one StorageClass. */
export function storageKeyOf(className: string | undefined): string {
  return className === undefined ? KEY : `${className}.storageclass.storage.k8s.io/${KEY}`;
}
