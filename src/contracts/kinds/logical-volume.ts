// LogicalVolume: one volume of LVM on one node, cluster-scoped. The operator writes the spec, the agent of its node makes the volume
// through lvmd and writes the status. Deleting the object deletes no data: a volume goes with its FilesystemLayout's member, a snapshot
// when its state here says so.
import * as z from "zod";
import type { KubeObject, Resource } from "../kubernetes/object.ts";
import { GROUP, VERSION } from "../names.ts";
import { observedGeneration, quantity } from "../schema/schema.ts";
import { claimReference } from "./filesystem.ts";
import { VOLUME_MODES } from "./filesystem-layout.ts";

const ACCESS_TYPES = ["rw", "ro"] as const;
const LOGICAL_VOLUME_STATES = ["Present", "Removed"] as const;

export const logicalVolumeSpec = z
  .object({
    nodeName: z.string().max(253).meta({ description: "The node of the volume." }),
    deviceClass: z.string().max(63).meta({ description: "The device class in that node's lvmd." }),
    size: quantity("Size at creation. Afterwards see status.currentSize."),
    claimRef: claimReference.meta({ description: "The claim of the volume; the volume's tags name it." }).optional(),
    source: z
      .string()
      .max(253)
      .meta({
        description: "The LogicalVolume on the same node that this one is a thin snapshot of. Absent: it starts empty.",
      })
      .optional(),
    accessType: z.enum(ACCESS_TYPES).meta({ description: "Access: rw, or ro for a snapshot. Absent: rw." }).optional(),
    volumeMode: z
      .enum(VOLUME_MODES)
      .meta({
        description: "Block: a raw block volume, which is never formatted. Absent: Filesystem.",
      })
      .optional(),
    volumeID: z
      .string()
      .max(128)
      .meta({
        description: "An existing LVM volume to use instead of creating one. Absent: the volume is created.",
      })
      .optional(),
    state: z
      .enum(LOGICAL_VOLUME_STATES)
      .meta({
        description:
          "Removed: delete the snapshot's data. For snapshots only; a volume is deleted through its FilesystemLayout. Absent: Present.",
      })
      .optional(),
  })
  .meta({ description: "The volume that should exist. Written by Tidemark only." });
export type LogicalVolumeSpec = z.infer<typeof logicalVolumeSpec>;

export const logicalVolumeStatus = z
  .object({
    observedGeneration: observedGeneration.optional(),
    volumeID: z
      .string()
      .max(128)
      .meta({ description: "The volume's name in LVM: this object's UID. Absent: not created yet." })
      .optional(),
    currentSize: quantity("Present size.").optional(),
    code: z
      .int()
      .min(0)
      .max(16)
      .meta({ description: "Why it could not be created: lvmd's gRPC status code." })
      .optional(),
    message: z.string().max(32768).meta({ description: "The error message of lvmd or LVM." }).optional(),
    state: z
      .enum(LOGICAL_VOLUME_STATES)
      .meta({ description: "Removed: its data on the node has been deleted." })
      .optional(),
  })
  .meta({ description: "What the node's agent observes." });
export type LogicalVolumeStatus = z.infer<typeof logicalVolumeStatus>;

export interface LogicalVolume extends KubeObject {
  kind: "LogicalVolume";
  spec: LogicalVolumeSpec;
  status?: LogicalVolumeStatus | undefined;
}

export const LOGICAL_VOLUMES: Resource<LogicalVolume> = {
  group: GROUP,
  version: VERSION,
  plural: "logicalvolumes",
  kind: "LogicalVolume",
  namespaced: false,
};
