// What a cluster's owner wants of thin pools: plain ratios, no CEL. A thin pool that fills up stops the writes of every volume in it,
// so these rules need nothing but the node's agent and lvmd to be carried out.
import { z } from "zod";
import { SOME_DIFFERENCE, USABLE_SIZE, USABLE_THRESHOLD } from "./admission-rules.ts";
import { percent, quantity } from "./schema.ts";

export const thinPoolRule = z
  .object({
    deviceClass: z
      .string()
      .min(1)
      .max(63)
      .meta({ description: "The device class of lvmd, on every node that has it." }),
    extendAt: percent(
      "The pool is extended when this much of its data, or of its metadata, is used. Default: 80%.",
      USABLE_THRESHOLD,
    ).optional(),
    by: z
      .string()
      .regex(/^[0-9]+(\.[0-9]+)?(%|[KMGTPE]i|[kMGTPE])?$/)
      .max(32)
      .meta({
        description:
          "By this much of its size, such as 20%, or this many bytes, such as 10Gi; its metadata by the same share. Default: 20%.",
        "x-kubernetes-validations": [SOME_DIFFERENCE],
      })
      .optional(),
    max: quantity(
      "Its data never grows over this. Default: what its volume group has, less the class' spare.",
      ...USABLE_SIZE,
    ).optional(),
  })
  .meta({ description: "How the thin pools of one device class grow." });
export type ThinPoolRule = z.infer<typeof thinPoolRule>;
