// Our kinds as the API server is told of them: names, columns, schemas. `make generate` writes them to kustomize/foundation/crds.
import type { CrdDescription, PrinterColumn } from "./crd.ts";
import { filesystemSpec, filesystemStatus } from "./filesystem.ts";
import { filesystemLayoutSpec, filesystemLayoutStatus } from "./filesystem-layout.ts";
import { logicalVolumeSpec, logicalVolumeStatus } from "./logical-volume.ts";
import { nodeStorageSpec, nodeStorageStatus } from "./node-storage.ts";
import { clusterVolumePolicySpec, policyStatus, volumePolicySpec } from "./volume-policy.ts";

const AGE: PrinterColumn = { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" };
const READY: PrinterColumn = {
  name: "Ready",
  type: "string",
  jsonPath: '.status.conditions[?(@.type=="Ready")].status',
};
/** Of READY, for `-o wide`. */
const READY_REASON: PrinterColumn = {
  name: "Reason",
  type: "string",
  jsonPath: '.status.conditions[?(@.type=="Ready")].reason',
  priority: 1,
};

/** Stalled and Reconciling come first in the list: what is wrong or under way explains more than that it is mounted. */
const STATE: PrinterColumn = {
  name: "State",
  type: "string",
  jsonPath: '.status.conditions[?(@.status=="True")].reason',
};

const policyColumns: PrinterColumn[] = [
  { name: "Extend", type: "string", jsonPath: ".spec.mode.extend" },
  { name: "Shrink", type: "string", jsonPath: ".spec.mode.shrink" },
  { name: "Min", type: "string", jsonPath: ".spec.limits.min" },
  { name: "Max", type: "string", jsonPath: ".spec.limits.max" },
  { name: "Matched", type: "integer", jsonPath: ".status.matchedFilesystems" },
  { name: "Reach", type: "string", jsonPath: ".status.reach", priority: 1 },
  READY,
  READY_REASON,
  AGE,
];

export const KINDS: CrdDescription[] = [
  {
    kind: "VolumePolicy",
    plural: "volumepolicies",
    shortNames: ["vpol"],
    scope: "Namespaced",
    description: "VolumePolicy says, in CEL, when the claims of its namespace are extended and shrunk.",
    spec: volumePolicySpec,
    status: policyStatus,
    columns: policyColumns,
  },
  {
    kind: "ClusterVolumePolicy",
    plural: "clustervolumepolicies",
    shortNames: ["cvpol"],
    scope: "Cluster",
    description:
      "ClusterVolumePolicy is the default for claims without a VolumePolicy, and the ceiling over those with one.",
    spec: clusterVolumePolicySpec,
    status: policyStatus,
    columns: policyColumns,
  },
  {
    kind: "Filesystem",
    plural: "filesystems",
    shortNames: ["fs"],
    scope: "Namespaced",
    description:
      "Filesystem is what users and policies see of a claim's storage: its size, what was decided about it, and why.",
    spec: filesystemSpec,
    status: filesystemStatus,
    columns: [
      { name: "Capacity", type: "string", jsonPath: ".status.capacity" },
      { name: "Target", type: "string", jsonPath: ".spec.target.size" },
      { name: "Plan", type: "string", jsonPath: ".status.scaling.plan" },
      { name: "Reason", type: "string", jsonPath: ".status.scaling.reason" },
      { name: "Policy", type: "string", jsonPath: ".status.scaling.policy", priority: 1 },
      { name: "Node", type: "string", jsonPath: ".status.nodeName", priority: 1 },
      READY,
      STATE,
      AGE,
    ],
  },
  {
    kind: "FilesystemLayout",
    plural: "filesystemlayouts",
    shortNames: ["fsl"],
    scope: "Cluster",
    description: "FilesystemLayout is the map of a filesystem's data: its members, its node, the operation that runs.",
    spec: filesystemLayoutSpec,
    status: filesystemLayoutStatus,
    columns: [
      { name: "Claim", type: "string", jsonPath: ".spec.claimRef.name" },
      { name: "Backend", type: "string", jsonPath: ".spec.backend" },
      { name: "Type", type: "string", jsonPath: ".spec.fsType" },
      { name: "Node", type: "string", jsonPath: ".status.nodeName" },
      { name: "Operation", type: "string", jsonPath: ".status.operation.kind" },
      { name: "Last", type: "string", jsonPath: ".status.lastOperation.outcome" },
      READY,
      AGE,
    ],
  },
  {
    kind: "LogicalVolume",
    plural: "logicalvolumes",
    shortNames: ["tlv"],
    scope: "Cluster",
    description: "LogicalVolume is one volume of LVM on one node: what shall be made there, and what was.",
    spec: logicalVolumeSpec,
    status: logicalVolumeStatus,
    columns: [
      { name: "Node", type: "string", jsonPath: ".spec.nodeName" },
      { name: "Class", type: "string", jsonPath: ".spec.deviceClass" },
      { name: "Size", type: "string", jsonPath: ".status.currentSize" },
      { name: "Volume", type: "string", jsonPath: ".status.volumeID" },
      { name: "Message", type: "string", jsonPath: ".status.message", priority: 1 },
      AGE,
    ],
  },
  {
    kind: "NodeStorage",
    plural: "nodestorages",
    shortNames: ["nst"],
    scope: "Cluster",
    description: "NodeStorage is what one node has for members: its device classes and their free bytes.",
    spec: nodeStorageSpec,
    status: nodeStorageStatus,
    columns: [{ name: "Free", type: "string", jsonPath: ".status.deviceClasses[0].free" }, AGE],
  },
];
