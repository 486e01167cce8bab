// What a cluster's owner wants of thin pools: plain ratios, no CEL. A thin pool that fills up stops the writes of every volume in it, so
// the node's agent and lvmd carry these rules out alone.
import * as z from "zod";
import { DIFFERENCE, percent, SOME_DIFFERENCE, USABLE_THRESHOLD, writtenSize, writtenText } from "../schema/schema.ts";

export const thinPoolRule = z
  .object({
    deviceClass: z.string().min(1).max(63).meta({ description: "The lvmd device class, on every node that has it." }),
    extendAt: percent(
      "Extend the pool when this share of its data or metadata space is used. Default: 80%.",
      USABLE_THRESHOLD,
    ).optional(),
    by: writtenText(
      DIFFERENCE,
      32,
      "Extend it by this share of its size, such as 20%, or by this many bytes, such as 10Gi; metadata grows by the same share. Default: 20%.",
      SOME_DIFFERENCE,
    ).optional(),
    max: writtenSize(
      "Maximum size of its data. Default: the size of its volume group, less the class' spare.",
    ).optional(),
  })
  .meta({ description: "Growth of the thin pools of one device class." });
export type ThinPoolRule = z.infer<typeof thinPoolRule>;
