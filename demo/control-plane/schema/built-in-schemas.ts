// Schemas of the built-in kinds, as far as Tidemark and kubectl read and write them. A part that no one here looks into (a pod's
// specification, foreign volume sources) stays as it is given.
import { customResourceDefinitionSchema } from "./definition-schema.ts";
import { objectMetaSchema } from "./object-meta-schema.ts";
import {
  accessModes,
  conditions,
  labelSelector,
  localReference,
  nodeSelector,
  objectReference,
  secretReference,
} from "./part-schemas.ts";
import {
  anything,
  atomicList,
  fields,
  flag,
  integer,
  keyedList,
  quantity,
  quantityMap,
  type Schema,
  setOf,
  stringMap,
  text,
  time,
} from "./schema.ts";

const csiVolumeSource = fields(
  {
    driver: text,
    volumeHandle: text,
    readOnly: flag,
    fsType: text,
    volumeAttributes: stringMap,
    controllerPublishSecretRef: secretReference,
    nodeStageSecretRef: secretReference,
    nodePublishSecretRef: secretReference,
    controllerExpandSecretRef: secretReference,
    nodeExpandSecretRef: secretReference,
  },
  ["driver", "volumeHandle"],
);

const persistentVolumeSpec = fields({
  capacity: quantityMap,
  accessModes,
  claimRef: { ...objectReference, "x-kubernetes-map-type": "granular" },
  persistentVolumeReclaimPolicy: { ...text, enum: ["Retain", "Delete", "Recycle"], default: "Retain" },
  storageClassName: text,
  mountOptions: atomicList(text),
  volumeMode: { ...text, enum: ["Filesystem", "Block"], default: "Filesystem" },
  nodeAffinity: fields({ required: nodeSelector }),
  volumeAttributesClassName: text,
  csi: csiVolumeSource,
  local: fields({ path: text, fsType: text }, ["path"]),
  hostPath: fields({ path: text, type: text }, ["path"]),
  nfs: fields({ server: text, path: text, readOnly: flag }, ["server", "path"]),
});

const claimSpec = fields({
  accessModes,
  selector: labelSelector,
  resources: fields({ limits: quantityMap, requests: quantityMap }),
  volumeName: text,
  storageClassName: text,
  volumeMode: { ...text, enum: ["Filesystem", "Block"], default: "Filesystem" },
  dataSource: localReference,
  dataSourceRef: { ...localReference, "x-kubernetes-map-type": "granular" },
  volumeAttributesClassName: text,
});

const claimStatus = fields({
  phase: { ...text, default: "Pending" },
  accessModes,
  capacity: quantityMap,
  conditions,
  allocatedResources: quantityMap,
  allocatedResourceStatuses: stringMap,
  currentVolumeAttributesClassName: text,
  modifyVolumeStatus: anything,
});

const nodeSpec = fields({
  podCIDR: text,
  podCIDRs: setOf(text),
  providerID: text,
  unschedulable: flag,
  taints: atomicList(fields({ key: text, value: text, effect: text, timeAdded: time }, ["key", "effect"])),
});

const nodeStatus = fields({
  capacity: quantityMap,
  allocatable: quantityMap,
  phase: text,
  conditions,
  addresses: keyedList(fields({ type: text, address: text }, ["type", "address"]), "type"),
  daemonEndpoints: anything,
  nodeInfo: anything,
  images: atomicList(anything),
  volumesInUse: atomicList(text),
  volumesAttached: atomicList(anything),
});

const eventProperties = {
  involvedObject: objectReference,
  reason: text,
  message: text,
  source: fields({ component: text, host: text }),
  firstTimestamp: { ...time, nullable: true },
  lastTimestamp: { ...time, nullable: true },
  count: integer,
  type: text,
  eventTime: { ...time, nullable: true },
  series: fields({ count: integer, lastObservedTime: time }),
  action: text,
  related: objectReference,
  reportingComponent: text,
  reportingInstance: text,
};

const leaseSpec = fields({
  holderIdentity: text,
  leaseDurationSeconds: integer,
  acquireTime: { ...time, nullable: true },
  renewTime: { ...time, nullable: true },
  leaseTransitions: integer,
  strategy: text,
  preferredHolder: text,
});

const csiDriverSpec = fields({
  attachRequired: { ...flag, default: true },
  podInfoOnMount: { ...flag, default: false },
  volumeLifecycleModes: setOf(text),
  storageCapacity: { ...flag, default: false },
  fsGroupPolicy: { ...text, default: "ReadWriteOnceWithFSType" },
  tokenRequests: atomicList(anything),
  requiresRepublish: { ...flag, default: false },
  seLinuxMount: { ...flag, default: false },
  nodeAllocatableUpdatePeriodSeconds: integer,
});

const csiNodeDriver = fields(
  { name: text, nodeID: text, topologyKeys: atomicList(text), allocatable: fields({ count: integer }) },
  ["name", "nodeID"],
);

const attachmentError = fields({ time, message: text, errorCode: integer });

const attachmentSpec = fields(
  { attacher: text, nodeName: text, source: fields({ persistentVolumeName: text, inlineVolumeSpec: anything }) },
  ["attacher", "nodeName", "source"],
);

const attachmentStatus = fields({
  attached: { ...flag, default: false },
  attachmentMetadata: stringMap,
  attachError: attachmentError,
  detachError: attachmentError,
});

// Defaults as in k8s.io/api/admissionregistration/v1. Nothing here calls a webhook.
const webhookClientConfig = fields({
  url: text,
  service: fields({ namespace: text, name: text, path: text, port: { ...integer, default: 443 } }, [
    "namespace",
    "name",
  ]),
  caBundle: text,
});
const webhookFields = {
  name: text,
  clientConfig: webhookClientConfig,
  rules: atomicList(anything),
  failurePolicy: { ...text, enum: ["Ignore", "Fail"], default: "Fail" },
  matchPolicy: { ...text, enum: ["Exact", "Equivalent"], default: "Equivalent" },
  namespaceSelector: { ...labelSelector, default: {} },
  objectSelector: { ...labelSelector, default: {} },
  sideEffects: { ...text, enum: ["None", "NoneOnDryRun"] },
  timeoutSeconds: { ...integer, default: 10 },
  admissionReviewVersions: atomicList(text),
  matchConditions: keyedList(fields({ name: text, expression: text }, ["name", "expression"]), "name"),
};
const requiredOfWebhooks = ["name", "clientConfig", "sideEffects", "admissionReviewVersions"];
const reinvocationPolicy = { ...text, enum: ["Never", "IfNeeded"], default: "Never" };
const mutatingWebhook = fields({ ...webhookFields, reinvocationPolicy }, requiredOfWebhooks);
const validatingWebhook = fields(webhookFields, requiredOfWebhooks);

interface Body {
  readonly description: string;
  readonly properties: Record<string, Schema>;
  readonly required?: string[];
}

const BODIES: Readonly<Record<string, Body>> = {
  Namespace: {
    description: "Namespace is a scope for names.",
    properties: {
      spec: fields({ finalizers: atomicList(text) }),
      status: fields({ phase: { ...text, default: "Active" }, conditions }),
    },
  },
  Node: { description: "Node is a worker of the cluster.", properties: { spec: nodeSpec, status: nodeStatus } },
  PersistentVolume: {
    description: "PersistentVolume is a storage resource, independent of what uses it.",
    properties: {
      spec: persistentVolumeSpec,
      status: fields({
        phase: { ...text, default: "Pending" },
        message: text,
        reason: text,
        lastPhaseTransitionTime: { ...time, nullable: true },
      }),
    },
  },
  PersistentVolumeClaim: {
    description: "PersistentVolumeClaim is a user's request for a persistent volume.",
    properties: { spec: claimSpec, status: claimStatus },
  },
  Pod: {
    description: "Pod is a group of containers on one node.",
    properties: { spec: anything, status: { ...anything, properties: { phase: { ...text, default: "Pending" } } } },
  },
  ConfigMap: {
    description: "ConfigMap holds configuration for pods to consume.",
    properties: { data: stringMap, binaryData: stringMap, immutable: flag },
  },
  ResourceQuota: {
    description: "ResourceQuota is what a namespace may have; here nothing counts it.",
    properties: { spec: anything, status: anything },
  },
  Secret: {
    description: "Secret holds secret bytes, base64 encoded.",
    properties: { data: stringMap, stringData: stringMap, immutable: flag, type: { ...text, default: "Opaque" } },
  },
  Event: {
    description: "Event is a report of something that happened to an object.",
    properties: eventProperties,
    required: ["involvedObject"],
  },
  StorageClass: {
    description: "StorageClass says how volumes of its name are provisioned.",
    properties: {
      provisioner: text,
      parameters: stringMap,
      reclaimPolicy: { ...text, enum: ["Delete", "Retain"], default: "Delete" },
      mountOptions: atomicList(text),
      allowVolumeExpansion: flag,
      volumeBindingMode: { ...text, enum: ["Immediate", "WaitForFirstConsumer"], default: "Immediate" },
      allowedTopologies: atomicList(anything),
    },
    required: ["provisioner"],
  },
  CSIDriver: {
    description: "CSIDriver says what a CSI driver needs from Kubernetes.",
    properties: { spec: csiDriverSpec },
    required: ["spec"],
  },
  CSINode: {
    description: "CSINode lists the CSI drivers of one node.",
    properties: { spec: fields({ drivers: keyedList(csiNodeDriver, "name") }, ["drivers"]) },
    required: ["spec"],
  },
  VolumeAttachment: {
    description: "VolumeAttachment is the intent to attach a volume to a node.",
    properties: { spec: attachmentSpec, status: attachmentStatus },
    required: ["spec"],
  },
  CSIStorageCapacity: {
    description: "CSIStorageCapacity is what a driver can still provision in one topology segment.",
    properties: {
      nodeTopology: labelSelector,
      storageClassName: text,
      capacity: quantity,
      maximumVolumeSize: quantity,
    },
    required: ["storageClassName"],
  },
  Lease: { description: "Lease is a lock that has to be renewed.", properties: { spec: leaseSpec } },
  MutatingWebhookConfiguration: {
    description: "MutatingWebhookConfiguration names webhooks that change objects before they are stored.",
    properties: { webhooks: keyedList(mutatingWebhook, "name") },
  },
  ValidatingWebhookConfiguration: {
    description: "ValidatingWebhookConfiguration names webhooks that may refuse objects before they are stored.",
    properties: { webhooks: keyedList(validatingWebhook, "name") },
  },
  CustomResourceDefinition: customResourceDefinitionSchema,
};

/** The whole schema of a built-in kind's objects. */
export function builtInSchema(kind: string): Schema {
  const body = BODIES[kind];
  if (body === undefined) throw new Error(`${kind} has no built-in schema`);
  const { description, properties, required } = body;
  return { ...objectSchema(properties, required), description };
}

/** A schema with apiVersion, kind and metadata in addition to the kind's own fields. */
export function objectSchema(properties: Record<string, Schema>, required: string[] = []): Schema {
  return fields({ apiVersion: text, kind: text, metadata: objectMetaSchema, ...properties }, required);
}
