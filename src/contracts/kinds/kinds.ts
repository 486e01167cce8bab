// Our kinds as CustomResourceDefinitions: names, columns, schemas. `make generate` writes them to kustomize/foundation/crds.

import * as z from "zod";
import { GROUP, VERSION } from "../names.ts";
import { filesystemSpec, filesystemStatus } from "./filesystem.ts";
import { filesystemLayoutSpec, filesystemLayoutStatus } from "./filesystem-layout.ts";
import { logicalVolumeSpec, logicalVolumeStatus } from "./logical-volume.ts";
import { nodeStorageSpec, nodeStorageStatus } from "./node-storage.ts";
import { scalingApprovalSpec, scalingApprovalStatus } from "./scaling-approval.ts";
import { clusterVolumePolicySpec, type PolicyStatus, policyStatus, volumePolicySpec } from "./volume-policy.ts";

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

/** Of a policy that no policy-engine has read: GitOps tools take an object without any condition for a healthy one. */
const UNREAD_POLICY: PolicyStatus = {
  conditions: [
    {
      type: "Ready",
      status: "Unknown",
      reason: "Pending",
      message: "no policy-engine has read this policy yet",
      lastTransitionTime: "1970-01-01T00:00:00Z",
    },
  ],
};

export const KINDS: CrdDescription[] = [
  {
    kind: "VolumePolicy",
    plural: "volumepolicies",
    shortNames: ["vpol"],
    scope: "Namespaced",
    description: "VolumePolicy defines, in CEL, when the claims of its namespace are extended and shrunk.",
    spec: volumePolicySpec,
    status: policyStatus,
    firstStatus: UNREAD_POLICY,
    columns: policyColumns,
  },
  {
    kind: "ClusterVolumePolicy",
    plural: "clustervolumepolicies",
    shortNames: ["cvpol"],
    scope: "Cluster",
    description:
      "ClusterVolumePolicy is the default for claims without a VolumePolicy, and sets ceilings for those with one.",
    spec: clusterVolumePolicySpec,
    status: policyStatus,
    firstStatus: UNREAD_POLICY,
    columns: policyColumns,
  },
  {
    kind: "ScalingApproval",
    plural: "scalingapprovals",
    shortNames: ["sappr"],
    scope: "Namespaced",
    description: "ScalingApproval approves changes of claims' volumes that policies of mode Approve plan.",
    spec: scalingApprovalSpec,
    status: scalingApprovalStatus,
    columns: [
      { name: "Action", type: "string", jsonPath: ".spec.action" },
      { name: "Not Above", type: "string", jsonPath: ".spec.notAbove" },
      { name: "Not Below", type: "string", jsonPath: ".spec.notBelow" },
      { name: "Not After", type: "string", jsonPath: ".spec.notAfter" },
      { name: "Use", type: "string", jsonPath: '.status.conditions[?(@.type=="InUse")].reason' },
      { name: "Too Narrow", type: "string", jsonPath: '.status.conditions[?(@.type=="TooNarrow")].status' },
      AGE,
    ],
  },
  {
    kind: "Filesystem",
    plural: "filesystems",
    shortNames: ["fs"],
    scope: "Namespaced",
    description: "Filesystem shows a claim's storage: its size, the last decision about it, and why.",
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
    description:
      "FilesystemLayout describes where a filesystem's data is: its members, its node, and the running operation.",
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
    description: "LogicalVolume is one LVM volume on one node.",
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
    description: "NodeStorage reports one node's storage for members: its device classes and their free bytes.",
    spec: nodeStorageSpec,
    status: nodeStorageStatus,
    columns: [{ name: "Free", type: "string", jsonPath: ".status.deviceClasses[0].free" }, AGE],
  },
];

// Turns a zod schema into the CustomResourceDefinition that is committed under kustomize/foundation/crds. Pure: text and objects only.

interface PrinterColumn {
  name: string;
  type: "string" | "integer" | "date" | "boolean";
  jsonPath: string;
  description?: string;
  priority?: number;
}

interface CrdDescription {
  kind: string;
  plural: string;
  shortNames: string[];
  scope: "Namespaced" | "Cluster";
  description: string;
  spec: z.ZodType;
  status: z.ZodType;
  /** What the status says before anything is written into it. */
  firstStatus?: object;
  columns: PrinterColumn[];
}

/** The whole CRD object of a kind. */
export function customResourceDefinition(description: CrdDescription): object {
  const { kind, plural, shortNames, scope, columns } = description;
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${GROUP}` },
    spec: {
      group: GROUP,
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular: kind.toLowerCase(),
        shortNames,
        categories: ["tidemark"],
      },
      scope,
      versions: [
        {
          name: VERSION,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: columns,
          schema: {
            openAPIV3Schema: {
              description: description.description,
              type: "object",
              required: ["spec"],
              properties: {
                apiVersion: { type: "string" },
                kind: { type: "string" },
                metadata: { type: "object" },
                spec: openApiSchema(description.spec),
                status: { ...openApiSchema(description.status), ...firstStatusOf(description) },
              },
            },
          },
        },
      ],
    },
  };
}

function firstStatusOf({ firstStatus }: CrdDescription): { readonly default?: object } {
  return firstStatus === undefined ? {} : { default: firstStatus };
}

/** A structural schema: no $ref, no additionalProperties: false, integer bounds only where we set them. */
function openApiSchema(schema: z.ZodType): object {
  const converted = z.toJSONSchema(schema, { target: "openapi-3.0", io: "input", reused: "inline" });
  return structural(converted) as object;
}

function structural(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(structural);
  if (typeof node !== "object" || node === null) return node;
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(node)) {
    if (key === "$schema" || (key === "additionalProperties" && value === false) || key === "propertyNames") continue;
    if ((key === "minimum" || key === "maximum") && Math.abs(value as number) === Number.MAX_SAFE_INTEGER) continue;
    result[key] = structural(value);
  }
  // An API server drops it, and Argo CD would see a difference for as long as it is there.
  if (isEmptyObject(result["properties"])) delete result["properties"];
  if (result["type"] === "integer") result["format"] = "int64";
  return withNullableObject(result);
}

function isEmptyObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

// zod writes a nullable object as anyOf [object, null]; a structural schema wants the object with nullable: true.
function withNullableObject(node: Record<string, unknown>): Record<string, unknown> {
  const { anyOf, allOf, ...rest } = node;
  if (Array.isArray(allOf) && allOf.length === 1) return { ...(allOf[0] as object), ...rest };
  if (anyOf === undefined) return node;
  const options = (anyOf as Record<string, unknown>[]).filter(
    (option) => option["type"] !== "null" && !("enum" in option && (option["enum"] as unknown[]).includes(null)),
  );
  return options.length === 1 ? { ...options[0], ...rest, nullable: true } : node;
}
