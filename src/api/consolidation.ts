// That a filesystem of several members stands in a pod's way: its members take the attach slots which the pod lacks on their node. The
// operator says so, the policy-engine decides whether its members may be merged. Only shapes live here.
import { z } from "zod";
import { quantity } from "./schema.ts";

/**
 * So long after its decision the operator gives up a merge whose new member is not in yet, and none keeps the policy-engine's rules waiting
 * any more: it decides anew, on what there is.
 */
export const CONSOLIDATION_LIMIT_MS = 600_000;

export const consolidationNeed = z
  .object({
    pod: z
      .string()
      .max(320)
      .meta({
        description: "NAMESPACE/NAME of the pod that waits for attach slots. Absent: it is of another namespace.",
      })
      .optional(),
    node: z.string().max(253).meta({ description: "The node that has this filesystem, and too few slots." }),
    members: z.int().min(1).max(4).meta({ description: "How many members it would have then." }),
    growth: quantity(
      "What it has more of meanwhile: the member that stays grows by that, or a new one has that, until the others have left.",
    ),
    message: z.string().max(32768).meta({ description: "Who waits for what, in a sentence with figures." }),
    obstacle: z
      .string()
      .max(1024)
      .meta({ description: "Why its members cannot be merged as things are, in words. Absent: they can." })
      .optional(),
  })
  .meta({
    description:
      "A pod lacks attach slots on its node, and fewer and larger members would free them. Absent: none does.",
  });
export type ConsolidationNeed = z.infer<typeof consolidationNeed>;
