// The claim that a member is made of, of any CSI class: what a FilesystemLayout records of it for the calls of its driver.
import * as z from "zod";
import { quantity } from "../schema/schema.ts";

const secretReference = z
  .object({
    namespace: z.string().meta({ description: "The Secret's namespace." }),
    name: z.string().meta({ description: "The Secret's name." }),
  })
  .meta({ description: "A Secret that the member's driver needs in its calls." });

/** A volume of any CSI driver, as its claim, its PersistentVolume and its VolumeAttachment describe it. */
export const claimSource = z
  .object({
    name: z.string().meta({
      description: "The member's claim, in the namespace tidemark-volumes. For the backend claim: the claim itself.",
    }),
    uid: z.string().meta({ description: "The claim's UID. Absent until the claim is created." }).optional(),
    volumeName: z
      .string()
      .meta({ description: "The claim's PersistentVolume. Absent until the claim is bound." })
      .optional(),
    persistentVolumeUID: z.string().meta({ description: "The UID of the PersistentVolume." }).optional(),
    driver: z.string().meta({ description: "The CSI driver of the PersistentVolume." }).optional(),
    volumeHandle: z.string().meta({ description: "The driver's handle of the volume." }).optional(),
    volumeAttributes: z
      .record(z.string(), z.string().meta({ description: "As the driver's provisioner wrote it." }))
      .meta({ description: "Volume attributes for the driver's calls." })
      .optional(),
    capacity: quantity(
      "Capacity of the PersistentVolume. Once it reaches the member's size, the device can be expanded on its node.",
    ).optional(),
    nodeStageSecretRef: secretReference.optional(),
    nodePublishSecretRef: secretReference.optional(),
    nodeExpandSecretRef: secretReference.optional(),
    attachment: z
      .object({
        nodeName: z.string().meta({ description: "The node that it is attached to." }),
        name: z.string().meta({ description: "The VolumeAttachment. Absent: the driver needs none." }).optional(),
        uid: z
          .string()
          .meta({
            description: "The UID of the VolumeAttachment; it differs for one that was deleted and created again.",
          })
          .optional(),
        context: z
          .record(z.string(), z.string().meta({ description: "As the driver's attacher wrote it." }))
          .meta({ description: "Attachment metadata for the driver's node service." })
          .optional(),
      })
      .meta({ description: "The attachment. Absent: attached to no node." })
      .optional(),
  })
  .meta({
    description: "Backend span: a member's claim, of any CSI class. Backend claim: the claim itself.",
  });
export type ClaimSource = z.infer<typeof claimSource>;
