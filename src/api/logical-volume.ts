// LogicalVolume: one volume of LVM on one node, cluster-scoped. The operator writes the spec, the agent of its node makes the volume
// through lvmd and writes the status. Deleting the object deletes no data: a volume goes with its FilesystemLayout's member, a snapshot
// when its state here says so.
import { z } from "zod";
import type { KubeObject, Resource } from "../kube/object.ts";
import { claimReference } from "./filesystem.ts";
import { VOLUME_MODES } from "./filesystem-layout.ts";
import { GROUP, VERSION } from "./names.ts";
import { observedGeneration, quantity } from "./schema.ts";

export const ACCESS_TYPES = ["rw", "ro"] as const;
export const LOGICAL_VOLUME_STATES = ["Present", "Removed"] as const;

export const logicalVolumeSpec = z
  .object({
    nodeName: z.string().max(253).meta({ description: "The node that has it." }),
    deviceClass: z.string().max(63).meta({ description: "The device class of that node's lvmd." }),
    size: quantity("What it is made with; from then on status.currentSize tells."),
    claimRef: claimReference.meta({ description: "The claim that it is made for; its tags name it." }).optional(),
    source: z
      .string()
      .max(253)
      .meta({ description: "The LogicalVolume of the same node that it begins as a thin snapshot of. Absent: empty." })
      .optional(),
    accessType: z
      .enum(ACCESS_TYPES)
      .meta({ description: "Whether it may be written to: rw, or ro for a snapshot. Absent: rw." })
      .optional(),
    volumeMode: z
      .enum(VOLUME_MODES)
      .meta({
        description: "Block: it is tagged as a raw block volume, which nobody ever formats. Absent means Filesystem.",
      })
      .optional(),
    volumeID: z
      .string()
      .max(128)
      .meta({
        description: "The volume of LVM that is there already: it is found, and never made. Absent: it is made.",
      })
      .optional(),
    state: z
      .enum(LOGICAL_VOLUME_STATES)
      .meta({
        description:
          "Removed: the snapshot's data goes. Only of a snapshot: a volume is removed by its FilesystemLayout. Absent: Present.",
      })
      .optional(),
  })
  .meta({ description: "Which volume there shall be. Written by Tidemark only." });
export type LogicalVolumeSpec = z.infer<typeof logicalVolumeSpec>;

export const logicalVolumeStatus = z
  .object({
    observedGeneration: observedGeneration.optional(),
    volumeID: z
      .string()
      .max(128)
      .meta({ description: "What LVM calls it: this object's UID. Absent: it is not made yet." })
      .optional(),
    currentSize: quantity("What it has now.").optional(),
    code: z.int().min(0).max(16).meta({ description: "Why it was not made: lvmd's gRPC status code." }).optional(),
    message: z.string().max(32768).meta({ description: "The same in lvmd's and LVM's words." }).optional(),
    state: z
      .enum(LOGICAL_VOLUME_STATES)
      .meta({ description: "Removed: nothing of it is on the node any more." })
      .optional(),
  })
  .meta({ description: "What the agent of its node finds." });
export type LogicalVolumeStatus = z.infer<typeof logicalVolumeStatus>;

export interface LogicalVolume extends KubeObject {
  kind: "LogicalVolume";
  spec: LogicalVolumeSpec;
  status?: LogicalVolumeStatus;
}

export const LOGICAL_VOLUMES: Resource<LogicalVolume> = {
  group: GROUP,
  version: VERSION,
  plural: "logicalvolumes",
  kind: "LogicalVolume",
  namespaced: false,
};
