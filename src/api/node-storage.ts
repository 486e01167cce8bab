// NodeStorage: what one node has for members, cluster-scoped and named by the node. Its agent alone writes it; it decides
// nothing by itself.
import { z } from "zod";
import type { KubeObject, Resource } from "../kube/object.ts";
import { OWN_BACKENDS } from "./filesystem-layout.ts";
import { GROUP, VERSION } from "./names.ts";
import { keyedList, quantity } from "./schema.ts";

export const nodeStorageSpec = z.object({}).meta({ description: "Nothing: a NodeStorage only reports." });

export const nodeStorageStatus = z
  .object({
    deviceClasses: keyedList(
      z
        .object({
          name: z.string().max(63).meta({ description: "The device class; that of the backend loop is called loop." }),
          backend: z.enum(OWN_BACKENDS).meta({ description: "The backend whose members it holds." }),
          free: quantity(
            "What new members can have, less the class' spare: what existing ones may still grow into is not free.",
          ),
          size: quantity("What members could have in all. Absent: nobody can tell.").optional(),
          default: z.boolean().meta({ description: "For StorageClasses that name no device class." }).optional(),
          thinPool: z
            .object({
              dataPercent: z.int().min(0).max(100).meta({ description: "How full its data is, rounded up." }),
              metadataPercent: z.int().min(0).max(100).meta({ description: "How full its metadata is, rounded up." }),
            })
            .meta({ description: "The thin pool behind the class. Absent: it has none, or nobody can tell." })
            .optional(),
          problem: z.string().max(1024).meta({ description: "Why no member can be made there now." }).optional(),
        })
        .meta({ description: "One device class of the node." }),
      ["name"],
      32,
      "Where members are made on this node.",
    ).optional(),
    attachSlots: keyedList(
      z
        .object({
          driver: z.string().max(253).meta({ description: "The CSI driver." }),
          limit: z.int().min(0).meta({ description: "How many of its volumes the node takes in all." }),
          used: z
            .int()
            .min(0)
            .meta({ description: "How many are attached to it now. Absent: its VolumeAttachments have to be counted." })
            .optional(),
        })
        .meta({ description: "The volumes of one CSI driver that the node takes." }),
      ["driver"],
      64,
      "Attach slots of member drivers that have a limit on this node.",
    ).optional(),
    ioUtilization: z
      .int()
      .min(0)
      .max(100)
      .meta({ description: "Of the busiest device class' disks over the last minute, percent, in steps of 10." })
      .optional(),
  })
  .meta({ description: "What the agent of the node finds. Written when a size or a slot has changed." });
export type NodeStorageStatus = z.infer<typeof nodeStorageStatus>;

export interface NodeStorage extends KubeObject {
  kind: "NodeStorage";
  spec?: z.infer<typeof nodeStorageSpec>;
  status?: NodeStorageStatus;
}

export const NODE_STORAGES: Resource<NodeStorage> = {
  group: GROUP,
  version: VERSION,
  plural: "nodestorages",
  kind: "NodeStorage",
  namespaced: false,
};
