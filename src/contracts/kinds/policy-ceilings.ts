// What a cluster's owner lets policies do: the ceilings of a ClusterVolumePolicy.
import * as z from "zod";
import { keyedList, writtenSize } from "../schema/schema.ts";

/** What is done with a wanted change, the freest first. */
export const MODES = ["Enforce", "Approve", "Recommend"] as const;
export type Mode = (typeof MODES)[number];

export const modeOf = (description: string) => z.enum(MODES).meta({ description });

const operationCount = (description: string) => z.int().min(1).max(100_000).meta({ description }).optional();

const driverModification = z
  .object({
    driver: z.string().min(1).max(63).meta({ description: "The CSI driver's name, such as ebs.csi.aws.com." }),
    perDay: z
      .int()
      .min(1)
      .max(1440)
      .meta({ description: "Maximum number of times that one of its volumes is expanded in any 24 hours." }),
  })
  .meta({ description: "What a driver allows for one volume." });

export const ceilings = z
  .object({
    max: writtenSize("Maximum size of each selected claim's volume. Default: no ceiling.").optional(),
    modes: z
      .object({
        extend: modeOf("The strongest mode allowed for extends. Default: Enforce.").optional(),
        shrink: modeOf("The strongest mode allowed for shrinks. Default: Enforce.").optional(),
      })
      .meta({
        description: "The strongest mode that policies may use, for each direction: Enforce > Approve > Recommend.",
      })
      .optional(),
    bytesPerNamespace: writtenSize(
      "Maximum total size of all volumes in a namespace, including running extends and emergency grants. Default: no ceiling.",
    ).optional(),
    storageClassNames: z
      .array(z.string().meta({ description: "The name of a StorageClass.", maxLength: 253 }))
      .max(64)
      .meta({
        description: "Only claims of these StorageClasses may be changed. Default: claims of every class.",
        "x-kubernetes-list-type": "set",
      })
      .optional(),
    changesPerHourPerNamespace: z
      .int()
      .min(1)
      .max(100_000)
      .meta({
        description:
          "Maximum number of changes that begin in any hour in a namespace. All of them count; raised requests, limits.min, limits.minAvailable and emergencies never wait for it. Default: no ceiling.",
      })
      .optional(),
    concurrentOperations: z
      .object({
        perNode: operationCount("Maximum number of operations that run at once on a node. Default: no ceiling."),
        perCluster: operationCount(
          "Maximum number of operations that run at once in the cluster. Default: no ceiling.",
        ),
      })
      .meta({
        description:
          "How many extends and shrinks may run at once: those of all volumes count, and the selected claims wait for their turn. Raised requests, limits.min, limits.minAvailable and emergencies never wait. Default: no ceiling.",
        "x-kubernetes-validations": [
          {
            rule: "!has(self.perNode) || !has(self.perCluster) || self.perNode <= self.perCluster",
            message: "perNode is larger than perCluster, and would hold nothing: lower it, or leave it out",
          },
        ],
      })
      .optional(),
    driverModifications: keyedList(
      driverModification,
      ["driver"],
      64,
      "How often drivers expand one volume, of ordinary claims (claimBackend). All expansions count; raised requests, limits.min and limits.minAvailable never wait. Default: no ceiling.",
    ).optional(),
  })
  .meta({
    description:
      "Limits on what policies may do to the selected claims. If several ClusterVolumePolicies match, the strictest value applies. Default: no limits.",
  });
