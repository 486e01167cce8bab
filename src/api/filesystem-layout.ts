// FilesystemLayout: what a filesystem is made of, cluster-scoped and named by the volume handle. The operator writes the spec,
// the agent of its node the status; the emergency grant is the policy-engine's.
import { z } from "zod";
import type { KubeObject, Resource } from "../kube/object.ts";
import { claimReference, sizeTarget } from "./filesystem.ts";
import { GROUP, VERSION } from "./names.ts";
import { conditions, keyedList, quantity, timestamp } from "./schema.ts";

export const BACKENDS = ["loop"] as const;
export type Backend = (typeof BACKENDS)[number];
export const FS_TYPES = ["btrfs", "ext4", "xfs"] as const;
export type FsType = (typeof FS_TYPES)[number];

const memberSpec = z.object({
  name: z.string().max(63),
  size: quantity("The size it was made with; absent on a rebuilt layout: as found on the node.").optional(),
  state: z
    .enum(["Present", "Removed"])
    .meta({ description: "Removed asks the agent to delete the member and its data; absent means Present." })
    .optional(),
  source: z.object({
    loop: z
      .object({ file: z.string().max(128).meta({ description: "File name in the node's member directory." }) })
      .optional(),
  }),
});
export type MemberSpec = z.infer<typeof memberSpec>;

/** Room that the agent may take by itself when minAvailable is crossed, granted in advance. */
export const emergencyGrant = z.object({
  size: quantity("The agent may grow up to this size by itself."),
  minAvailable: quantity("It does so when fewer bytes than this are available."),
  expiry: timestamp("Not after this."),
  epoch: z.int().min(0),
});
export type EmergencyGrant = z.infer<typeof emergencyGrant>;

export const filesystemLayoutSpec = z.object({
  claimRef: claimReference.optional(),
  volumeUID: z.string().optional(),
  backend: z.enum(BACKENDS).optional(),
  fsType: z.enum(FS_TYPES).optional(),
  nodeName: z.string().meta({ description: "The node whose agent owns it." }).optional(),
  members: keyedList(memberSpec, ["name"], 4, "The devices under the filesystem.").optional(),
  target: sizeTarget.optional(),
  emergency: emergencyGrant.optional(),
});
export type FilesystemLayoutSpec = z.infer<typeof filesystemLayoutSpec>;

export const OPERATION_KINDS = ["Extend", "Shrink"] as const;
export const OPERATION_OUTCOMES = ["Succeeded", "Cancelled", "FloorReached", "Failed"] as const;

const operationFields = {
  kind: z.enum(OPERATION_KINDS),
  from: quantity("The size before."),
  to: quantity("The size asked for."),
  epoch: z.int().min(0),
  decidedAt: timestamp("Which target it carries out.").optional(),
  emergency: z.boolean().meta({ description: "Started by the agent from its grant." }).optional(),
  startedAt: timestamp("When it began."),
};

export const operation = z.object({ ...operationFields, step: z.string().max(63) });
export type Operation = z.infer<typeof operation>;

export const lastOperation = z.object({
  ...operationFields,
  outcome: z.enum(OPERATION_OUTCOMES),
  reached: quantity("The size at its end."),
  floor: quantity("The smallest size that the filesystem called safe, where that ended it.").optional(),
  reason: z.string().optional(),
  message: z.string().max(32768).optional(),
  endedAt: timestamp("When it ended."),
});
export type LastOperation = z.infer<typeof lastOperation>;

export const filesystemLayoutStatus = z.object({
  observedGeneration: z.int().min(0).optional(),
  fsid: z.string().optional(),
  nodeName: z.string().optional(),
  mounted: z
    .boolean()
    .meta({ description: "Staged on its node, so that it is measured and can be resized." })
    .optional(),
  epoch: z.int().min(0).meta({ description: "The highest epoch the agent has seen for it." }).optional(),
  members: keyedList(
    z.object({
      name: z.string().max(63),
      deviceUUID: z.string().optional(),
      devid: z.int().optional(),
      size: quantity("Its present size."),
      state: z.enum(["Present", "Missing", "Removed"]),
    }),
    ["name"],
    8,
    "The members as the node has them.",
  ).optional(),
  operation: operation
    .nullable()
    .meta({ description: "The running operation; recorded before its first side effect." })
    .optional(),
  lastOperation: lastOperation.optional(),
  conditions: conditions.optional(),
});
export type FilesystemLayoutStatus = z.infer<typeof filesystemLayoutStatus>;

export interface FilesystemLayout extends KubeObject {
  kind: "FilesystemLayout";
  spec: FilesystemLayoutSpec;
  status?: FilesystemLayoutStatus;
}

export const FILESYSTEM_LAYOUTS: Resource<FilesystemLayout> = {
  group: GROUP,
  version: VERSION,
  plural: "filesystemlayouts",
  kind: "FilesystemLayout",
  namespaced: false,
};
