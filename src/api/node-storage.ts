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
          free: quantity("What new members can have: what existing ones may still grow into is not free."),
        })
        .meta({ description: "One device class of the node." }),
      ["name"],
      32,
      "Where members are made on this node.",
    ).optional(),
  })
  .meta({ description: "What the agent of the node finds. Written when it has changed by a hundredth." });
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
