// ScalingApproval: what an approver has agreed to in writing, of some claims of a namespace: changes up to a size, until a time. It says
// what may happen, never that it does: a policy decides, and nothing is used up by a change.
import * as z from "zod";
import type { KubeObject, Resource } from "../kubernetes/object.ts";
import { GROUP, VERSION } from "../names.ts";
import { conditions, labelSelector, observedGeneration, timestamp, writtenSize } from "../schema/schema.ts";

/** Claims that one approval names; a selector names more. */
const CLAIMS_MAX = 64;

export const scalingApprovalSpec = z
  .object({
    claims: z
      .array(z.string().meta({ description: "The name of a claim in this namespace.", maxLength: 253 }))
      .min(1)
      .max(CLAIMS_MAX)
      .meta({
        description: "The claims whose changes are approved. Exactly one of claims and selector is required.",
        "x-kubernetes-list-type": "set",
      })
      .optional(),
    selector: labelSelector(
      "Selects claims of this namespace by their labels; one without terms selects every claim. Exactly one of claims and selector is required.",
    ).optional(),
    action: z.enum(["Extend", "Shrink"]).meta({ description: "What is approved: larger or smaller volumes." }),
    notAbove: writtenSize("Of extends, the largest size that is approved. Required for Extend.").optional(),
    notBelow: writtenSize("Of shrinks, the smallest size that is approved. Required for Shrink.").optional(),
    notAfter: timestamp("Nothing is approved from then on. A shrink that runs then ends after its step."),
  })
  .meta({
    description: "Which changes are approved: any that a policy plans within these bounds, as often as it does.",
    "x-kubernetes-validations": [
      {
        rule: "has(self.claims) != has(self.selector)",
        message: "exactly one of claims and selector is required",
      },
      {
        rule: "self.action == 'Extend' ? has(self.notAbove) : has(self.notBelow)",
        message: "an approval has a bound: notAbove for action Extend, notBelow for action Shrink",
      },
      {
        rule: "self.action == 'Extend' ? !has(self.notBelow) : !has(self.notAbove)",
        message: "the bound does not fit the action: notAbove is for Extend, notBelow for Shrink",
      },
    ],
  });
type ScalingApprovalSpec = z.infer<typeof scalingApprovalSpec>;

export const scalingApprovalStatus = z
  .object({
    observedGeneration: observedGeneration.optional(),
    conditions: conditions.optional(),
  })
  .meta({
    description: "The policy-engine's view of the approval: whether a plan has needed it, and whether one waits.",
  });
export type ScalingApprovalStatus = z.infer<typeof scalingApprovalStatus>;

export interface ScalingApproval extends KubeObject {
  kind: "ScalingApproval";
  spec: ScalingApprovalSpec;
  status?: ScalingApprovalStatus | undefined;
}

export const SCALING_APPROVALS: Resource<ScalingApproval> = {
  group: GROUP,
  version: VERSION,
  plural: "scalingapprovals",
  kind: "ScalingApproval",
  namespaced: true,
};
