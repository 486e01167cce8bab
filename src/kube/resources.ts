// The built-in kinds that Tidemark reads and writes: how each is addressed, and the fields of it that we touch. Fields
// that nobody here reads are left out; they survive our writes, since those are applies and patches.
import type { KubeObject, ObjectName, Resource } from "./object.ts";

export interface Condition {
  type: string;
  status: "True" | "False" | "Unknown";
  observedGeneration?: number;
  lastTransitionTime?: string;
  reason?: string;
  message?: string;
}

export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: {
    key: string;
    operator: "In" | "NotIn" | "Exists" | "DoesNotExist";
    values?: string[];
  }[];
}

export interface ObjectReference extends Partial<ObjectName> {
  apiVersion?: string;
  kind?: string;
  uid?: string;
  resourceVersion?: string;
}

export interface NodeSelectorTerm {
  matchExpressions?: { key: string; operator: string; values?: string[] }[];
}

export interface Namespace extends KubeObject {
  status?: { phase?: "Active" | "Terminating" };
}

export interface ConfigMap extends KubeObject {
  data?: Record<string, string>;
}

/** Of storage it limits the keys of src/api/storage-quota.ts. */
export interface ResourceQuota extends KubeObject {
  /** With either of the last two it counts some claims only. */
  spec?: { hard?: Record<string, string>; scopes?: string[]; scopeSelector?: object };
  status?: { hard?: Record<string, string>; used?: Record<string, string> };
}

export interface Secret extends KubeObject {
  /** Immutable once set. */
  type?: string;
  /** Base64. */
  data?: Record<string, string>;
}

/** Asked, not stored: the answer comes with the create. */
export interface TokenReview extends KubeObject {
  spec: { token: string; audiences?: string[] };
  status?: {
    authenticated?: boolean;
    audiences?: string[];
    error?: string;
    user?: { username?: string; uid?: string; groups?: string[]; extra?: Record<string, string[]> };
  };
}

/** Asked, not stored, like a TokenReview. */
export interface SubjectAccessReview extends KubeObject {
  spec: {
    user: string;
    uid?: string;
    groups?: string[];
    extra?: Record<string, string[]>;
    nonResourceAttributes: { path: string; verb: string };
  };
  status?: { allowed: boolean; denied?: boolean; reason?: string; evaluationError?: string };
}

export interface Node extends KubeObject {
  spec?: { unschedulable?: boolean; taints?: { key: string; value?: string; effect: string }[] };
  status?: {
    conditions?: Condition[];
    volumesAttached?: { name: string; devicePath: string }[];
    volumesInUse?: string[];
  };
}

export type AccessMode = "ReadWriteOnce" | "ReadOnlyMany" | "ReadWriteMany" | "ReadWriteOncePod";
export type VolumeMode = "Filesystem" | "Block";

export interface PersistentVolumeClaimSpec {
  accessModes?: AccessMode[];
  resources?: { requests?: { storage?: string }; limits?: { storage?: string } };
  storageClassName?: string;
  volumeMode?: VolumeMode;
  volumeName?: string;
  selector?: LabelSelector;
  dataSource?: { apiGroup?: string; kind: string; name: string };
}

export interface PersistentVolumeClaim extends KubeObject {
  spec: PersistentVolumeClaimSpec;
  status?: {
    phase?: "Pending" | "Bound" | "Lost";
    accessModes?: AccessMode[];
    capacity?: { storage?: string };
    conditions?: Condition[];
    allocatedResources?: { storage?: string };
    allocatedResourceStatuses?: Record<string, string>;
  };
}

export type ReclaimPolicy = "Retain" | "Delete";

export interface CsiVolumeSource {
  driver: string;
  volumeHandle: string;
  fsType?: string;
  readOnly?: boolean;
  volumeAttributes?: Record<string, string>;
  controllerPublishSecretRef?: ObjectName;
  nodeStageSecretRef?: ObjectName;
  nodePublishSecretRef?: ObjectName;
  nodeExpandSecretRef?: ObjectName;
}

export interface PersistentVolume extends KubeObject {
  spec: {
    capacity?: { storage?: string };
    accessModes?: AccessMode[];
    persistentVolumeReclaimPolicy?: ReclaimPolicy;
    storageClassName?: string;
    volumeMode?: VolumeMode;
    claimRef?: ObjectReference;
    csi?: CsiVolumeSource;
    nodeAffinity?: { required?: { nodeSelectorTerms: NodeSelectorTerm[] } };
    mountOptions?: string[];
  };
  status?: { phase?: "Pending" | "Available" | "Bound" | "Released" | "Failed"; message?: string; reason?: string };
}

export interface StorageClass extends KubeObject {
  provisioner: string;
  parameters?: Record<string, string>;
  reclaimPolicy?: ReclaimPolicy;
  volumeBindingMode?: "Immediate" | "WaitForFirstConsumer";
  /** Any of them; within one all expressions hold. */
  allowedTopologies?: { matchLabelExpressions?: { key: string; values: string[] }[] }[];
  allowVolumeExpansion?: boolean;
  mountOptions?: string[];
}

export interface CSINode extends KubeObject {
  spec: {
    drivers: { name: string; nodeID: string; topologyKeys?: string[]; allocatable?: { count?: number } }[];
  };
}

/** What a driver's provisioner says that one of its classes still has, where nodes fit the topology. */
export interface CSIStorageCapacity extends KubeObject {
  storageClassName: string;
  /** Absent: on no node; empty: on all. */
  nodeTopology?: LabelSelector;
  capacity?: string;
  maximumVolumeSize?: string;
}

export interface CSIDriver extends KubeObject {
  spec: {
    attachRequired?: boolean;
    podInfoOnMount?: boolean;
    storageCapacity?: boolean;
    fsGroupPolicy?: "ReadWriteOnceWithFSType" | "File" | "None";
    volumeLifecycleModes?: ("Persistent" | "Ephemeral")[];
  };
}

/** The intent to have a volume attached to a node; the attacher of the volume's driver carries it out. */
export interface VolumeAttachment extends KubeObject {
  spec: { attacher: string; nodeName: string; source: { persistentVolumeName?: string } };
  status?: {
    attached: boolean;
    attachmentMetadata?: Record<string, string>;
    attachError?: { time?: string; message?: string };
    detachError?: { time?: string; message?: string };
  };
}

export interface Lease extends KubeObject {
  spec?: {
    holderIdentity?: string;
    leaseDurationSeconds?: number;
    /** MicroTime: RFC 3339 with exactly six digits of fraction. */
    acquireTime?: string;
    renewTime?: string;
    leaseTransitions?: number;
  };
}

/** core/v1 Event. */
export interface Event extends KubeObject {
  involvedObject: ObjectReference;
  type?: "Normal" | "Warning";
  reason?: string;
  message?: string;
  count?: number;
  firstTimestamp?: string;
  lastTimestamp?: string;
  source?: { component?: string; host?: string };
  reportingComponent?: string;
  reportingInstance?: string;
}

/** Where the pods of a Service are. */
export interface EndpointSlice extends KubeObject {
  ports?: { name?: string; port?: number }[];
  /** All of an endpoint's addresses lead to the same pod. */
  endpoints?: { addresses: string[]; conditions?: { ready?: boolean; serving?: boolean; terminating?: boolean } }[];
}

/** Of a template of a claim, as in a pod's generic ephemeral volume: what the claim is made with. */
export interface ClaimTemplate {
  spec?: Pick<PersistentVolumeClaimSpec, "accessModes" | "resources" | "storageClassName">;
}

export interface PodVolume {
  name: string;
  persistentVolumeClaim?: { claimName: string };
  /** The claim is made with the pod, as PODNAME-VOLUMENAME. */
  ephemeral?: { volumeClaimTemplate?: ClaimTemplate };
}

export type ResourceQuantities = Record<string, string | number>;

export interface PodContainer {
  name: string;
  image?: string;
  resources?: { requests?: ResourceQuantities; limits?: ResourceQuantities };
}

export interface Pod extends KubeObject {
  spec: {
    nodeName?: string;
    schedulerName?: string;
    nodeSelector?: Record<string, string>;
    affinity?: { nodeAffinity?: { requiredDuringSchedulingIgnoredDuringExecution?: object } };
    containers: PodContainer[];
    volumes?: PodVolume[];
    tolerations?: { key?: string; operator?: string; effect?: string }[];
  };
  status?: {
    phase?: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";
    nominatedNodeName?: string;
    conditions?: Condition[];
  };
}

export interface MutatingWebhookConfiguration extends KubeObject {
  webhooks?: {
    name: string;
    /** `caBundle`: PEM in base64. */
    clientConfig?: { caBundle?: string };
    namespaceSelector?: LabelSelector;
    objectSelector?: LabelSelector;
  }[];
}

export interface ValidatingAdmissionPolicy extends KubeObject {
  spec?: { failurePolicy?: "Fail" | "Ignore" };
}

export interface ValidatingAdmissionPolicyBinding extends KubeObject {
  /** `matchResources`: narrows what the policy is asked about. */
  spec?: { policyName?: string; validationActions?: string[]; matchResources?: object };
}

export interface CustomResourceDefinition extends KubeObject {
  spec: {
    group: string;
    names: { plural: string; singular?: string; kind: string; shortNames?: string[] };
    scope: "Namespaced" | "Cluster";
    versions: { name: string; served: boolean; storage: boolean }[];
  };
  status?: { conditions?: Condition[] };
}

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
