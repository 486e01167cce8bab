// NodeStorage: what one node has for members, cluster-scoped and named by the node. Its agent alone writes it; it decides
// nothing by itself.
import * as z from "zod";
import type { KubeObject, Resource } from "../kubernetes/object.ts";
import { GROUP, VERSION } from "../names.ts";
import { keyedList, quantity } from "../schema/schema.ts";
import { OWN_BACKENDS } from "./filesystem-layout.ts";

export const nodeStorageSpec = z.object({}).meta({ description: "Empty: a NodeStorage only reports." });

export const nodeStorageStatus = z
  .object({
    deviceClasses: keyedList(
      z
        .object({
          name: z.string().max(63).meta({ description: "The device class. For the backend loop its name is loop." }),
          backend: z.enum(OWN_BACKENDS).meta({ description: "The backend that stores its members here." }),
          free: quantity(
            "Capacity for new members, less the class' spare and what existing members may still grow into.",
          ),
          size: quantity("Total capacity for members. Absent: unknown.").optional(),
          default: z
            .boolean()
            .meta({ description: "Whether StorageClasses without a device class use it." })
            .optional(),
          thinPool: z
            .object({
              dataPercent: z.int().min(0).max(100).meta({ description: "Used data space, rounded up." }),
              metadataPercent: z.int().min(0).max(100).meta({ description: "Used metadata space, rounded up." }),
            })
            .meta({ description: "The thin pool of the class. Absent: no thin pool, or unknown." })
            .optional(),
          problem: z.string().max(1024).meta({ description: "Why no member can be created here now." }).optional(),
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
          limit: z.int().min(0).meta({ description: "The maximum number of its volumes on the node." }),
          used: z
            .int()
            .min(0)
            .meta({ description: "The number attached now. Absent: count its VolumeAttachments." })
            .optional(),
        })
        .meta({ description: "Attach slots of one CSI driver." }),
      ["driver"],
      64,
      "Attach slots of member drivers that have a limit on this node.",
    ).optional(),
    ioUtilization: z
      .int()
      .min(0)
      .max(100)
      .meta({
        description: "Utilization of the busiest device class' disks over the last minute, in percent, in steps of 10.",
      })
      .optional(),
  })
  .meta({ description: "What the node's agent observes. Written when a size or an attach slot changes." });
export type NodeStorageStatus = z.infer<typeof nodeStorageStatus>;

export interface NodeStorage extends KubeObject {
  kind: "NodeStorage";
  spec?: z.infer<typeof nodeStorageSpec>;
  status?: NodeStorageStatus | undefined;
}

export const NODE_STORAGES: Resource<NodeStorage> = {
  group: GROUP,
  version: VERSION,
  plural: "nodestorages",
  kind: "NodeStorage",
  namespaced: false,
};
