// VolumePolicy and ClusterVolumePolicy: what a team, or a cluster's owner, wants of volumes. Only shapes and their rules live
// here; what a policy means is decided in src/policy-engine.
import * as z from "zod";
import type { KubeObject, Resource } from "../kubernetes/object.ts";
import { GROUP, VERSION } from "../names.ts";
import {
  celExpression,
  conditions,
  DIFFERENCE,
  duration,
  EXPRESSIONS_WITHIN_BUDGET,
  keyedList,
  labelSelector,
  NAME_PATTERN,
  notLarger,
  observedGeneration,
  percent,
  quantity,
  SHRINK_LEAVES_SOMETHING,
  SOME_DIFFERENCE,
  smaller,
  USABLE_TARGET,
  writtenSize,
  writtenText,
} from "../schema/schema.ts";
import { behavior } from "./policy-behavior.ts";
import { ceilings, MODES, type Mode, modeOf } from "./policy-ceilings.ts";
import { thinPoolRule } from "./thin-pool-rule.ts";
import { trimSchedule } from "./trim.ts";

const CLAIM_BACKENDS = ["Disabled", "Enabled"] as const;
export type ClaimBackend = (typeof CLAIM_BACKENDS)[number];

/** What an absent mode means: the API server writes it down, the policy-engine reads it so. */
export const DEFAULT_MODES = { extend: "Enforce", shrink: "Recommend" } as const satisfies Record<string, Mode>;

const RULE_NAME = {
  pattern: NAME_PATTERN,
  message: "write a name of a to z, 0 to 9 and -, such as extend-at-80",
};
const VARIABLE_NAME = {
  pattern: "^[a-zA-Z_][a-zA-Z0-9_]*$",
  message: "write a name of letters, digits and _ that begins with no digit, such as peak",
};

const rule = z
  .object({
    name: writtenText(RULE_NAME, 63, "The rule's name in statuses, Events and metrics."),
    action: z.enum(["Extend", "Shrink"]).meta({ description: "Whether the rule makes volumes larger or smaller." }),
    when: celExpression(
      "CEL expression that evaluates to bool: the rule fires while it is true. It may read volume, node, variables and now, such as volume.usedRatio >= 0.8.",
    ),
    targetUsed: percent(
      "Change to the size at which this share is used: at least 1% and less than 100%. A shrink uses the peak in the rule's window.",
      USABLE_TARGET,
    ).optional(),
    by: writtenText(
      DIFFERENCE,
      32,
      "Change by this much: a percentage of the capacity, such as 25%, or a size in bytes, such as 10Gi.",
      SOME_DIFFERENCE,
    ).optional(),
    to: writtenSize("Change to this size.").optional(),
    toExpression: celExpression("CEL expression that evaluates to bytes: change to this size.").optional(),
    for: duration("How long the condition must be true without interruption. Default: 0s.").optional(),
    mode: z
      .enum(MODES)
      .meta({
        description:
          "What to do with the changes of this rule: Enforce, Approve or Recommend. A ceiling of its direction still applies. Default: the policy's mode of the rule's direction.",
      })
      .optional(),
    messageExpression: celExpression(
      "CEL expression that evaluates to string: appended to the reason in the status. Default: empty.",
    ).optional(),
  })
  .meta({
    description: "When volumes change, and to which size: exactly one of targetUsed, by, to and toExpression.",
    "x-kubernetes-validations": [
      {
        rule: "[has(self.targetUsed), has(self.by), has(self.to), has(self.toExpression)].filter(x, x).size() == 1",
        message: "exactly one of targetUsed, by, to and toExpression is required",
      },
      SHRINK_LEAVES_SOMETHING,
    ],
  });
export type PolicyRule = z.infer<typeof rule>;

const variable = z.object({
  name: writtenText(VARIABLE_NAME, 63, "The name; expressions use it as variables.NAME."),
  expression: celExpression("CEL expression; later variables and all rules may use it as variables.NAME."),
});

const limits = z
  .object({
    min: writtenSize(
      "Minimum size; a smaller volume is extended to it. Default: the claim's request, or the class' initialSize.",
    ).optional(),
    max: writtenSize(
      "Maximum size. Required if a rule extends. A VolumePolicy also stops at 10 times the claim's request, unless a ClusterVolumePolicy that selects the claim sets ceilings.max.",
    ).optional(),
    minAvailable: writtenSize(
      "Extend immediately when free space drops below this. Default: max(5% of capacity, 5 s of the present growth), at most 20% of capacity.",
    ).optional(),
  })
  .meta({
    description: "Size limits of every volume that this policy decides.",
    "x-kubernetes-validations": [notLarger("min", "max"), smaller("minAvailable", "max")],
  });

const mode = z
  .object({
    extend: modeOf("What to do when a volume should grow. Default: Enforce.")
      .meta({ default: DEFAULT_MODES.extend })
      .optional(),
    shrink: modeOf("What to do when a volume should shrink. Default: Recommend.")
      .meta({ default: DEFAULT_MODES.shrink })
      .optional(),
  })
  .meta({
    description:
      "For each direction: Enforce acts, Approve acts once a ScalingApproval covers the change, Recommend only reports what it would do.",
    default: {},
  });

const policyFields = {
  priority: z
    .int()
    .min(-1_000_000)
    .max(1_000_000)
    .meta({
      description:
        "The highest priority wins within one scope. If equal, the oldest policy wins, both get the condition Conflict, and the others are not Ready. Default: 0.",
    })
    .optional(),
  suspend: z
    .boolean()
    .meta({
      description:
        "Pause this policy. Volumes it selects are not changed, and not handed to another policy. Default: false.",
    })
    .optional(),
  selector: labelSelector("Selects claims by their labels. Default: every claim.").optional(),
  storageClassNames: z
    .array(z.string().meta({ description: "The name of a StorageClass.", maxLength: 253 }))
    .max(64)
    .meta({
      description: "Only claims of these StorageClasses. Default: claims of every class.",
      "x-kubernetes-list-type": "set",
    })
    .optional(),
  mode: mode.optional(),
  approveAbove: writtenSize(
    "Extends to more than this need a ScalingApproval, although their mode is Enforce; up to it they do not. It says nothing about shrinks. Default: the mode alone decides.",
  ).optional(),
  emergency: z
    .enum(["Enabled", "Disabled"])
    .meta({
      description:
        "Enabled: a volume that is nearly full grows a little without the approval that mode Approve or approveAbove asks for, and its agent may do so by itself. Disabled: neither, the disk may become full. Default: Enabled.",
    })
    .optional(),
  limits: limits.optional(),
  variables: keyedList(
    variable.meta({ description: "A named expression." }),
    ["name"],
    32,
    "Named expressions, evaluated in order and only where they are used. Default: none.",
  ).optional(),
  rules: keyedList(
    rule,
    ["name"],
    32,
    "All rules are evaluated. Any Extend wins over every Shrink; then the largest size wins.",
  ),
  behavior: behavior.optional(),
  trim: trimSchedule.optional(),
  claimBackend: z
    .enum(CLAIM_BACKENDS)
    .meta({
      description:
        "Enabled: also extend claims of other drivers' expandable classes, by raising their request. Default: Disabled.",
    })
    .optional(),
  onStaleMetrics: z
    .enum(["Hold", "ExtendOnly"])
    .meta({
      description:
        "Without fresh metrics: do nothing (Hold), or extend on one fresh reading of the agent (ExtendOnly). Never shrinks. Default: ExtendOnly.",
    })
    .optional(),
};

const MAX_NEEDED = {
  rule: "!self.rules.exists(r, r.action == 'Extend') || (has(self.limits) && has(self.limits.max))",
  message: "limits.max is required where a rule extends: a volume must not grow without a bound",
};

export const volumePolicySpec = z.object(policyFields).meta({
  description: "How the selected claims of this namespace are sized.",
  "x-kubernetes-validations": [MAX_NEEDED, EXPRESSIONS_WITHIN_BUDGET],
});
export type VolumePolicySpec = z.infer<typeof volumePolicySpec>;

export const clusterVolumePolicySpec = z
  .object({
    ...policyFields,
    rules: policyFields.rules.optional(),
    namespaceSelector: labelSelector("Selects namespaces by their labels. Default: every namespace.").optional(),
    ceilings: ceilings.optional(),
    thinPools: keyedList(
      thinPoolRule,
      ["deviceClass"],
      32,
      "Thin pools that grow before they are full. Selectors, limits and modes say nothing about them; of several policies that name a class the first by priority and age holds. Default: none grows.",
    ).optional(),
  })
  .meta({
    description: "The default for claims that no namespaced policy selects, and the ceilings over those that one does.",
    "x-kubernetes-validations": [
      { rule: `!has(self.rules) || ${MAX_NEEDED.rule}`, message: MAX_NEEDED.message },
      EXPRESSIONS_WITHIN_BUDGET,
      notLarger("limits.min", "ceilings.max"),
      notLarger("limits.min", "ceilings.bytesPerNamespace"),
      smaller("limits.minAvailable", "ceilings.max"),
    ],
  });
export type ClusterVolumePolicySpec = z.infer<typeof clusterVolumePolicySpec>;

export const policyStatus = z
  .object({
    observedGeneration: observedGeneration.optional(),
    matchedFilesystems: z
      .int()
      .min(0)
      .meta({ description: "The number of filesystems that this policy decides." })
      .optional(),
    reach: quantity(
      "Maximum total size of these filesystems, by limits, ceilings and classes. Quotas and free capacity may allow less.",
    ).optional(),
    withoutCeiling: z
      .int()
      .min(0)
      .meta({
        description:
          "The number of these filesystems without ceilings.max or bytesPerNamespace of any ClusterVolumePolicy.",
      })
      .optional(),
    cappedByRequest: z
      .int()
      .min(0)
      .meta({
        description:
          "The number of these filesystems that cannot reach limits.max: without ceilings.max of a ClusterVolumePolicy they stop at 10 × their claim's request. Absent: none.",
      })
      .optional(),
    conditions: conditions.optional(),
  })
  .meta({ description: "The policy-engine's view of the policy." });
export type PolicyStatus = z.infer<typeof policyStatus>;

export interface VolumePolicy extends KubeObject {
  kind: "VolumePolicy";
  spec: VolumePolicySpec;
  status?: PolicyStatus | undefined;
}

export interface ClusterVolumePolicy extends KubeObject {
  kind: "ClusterVolumePolicy";
  spec: ClusterVolumePolicySpec;
  status?: PolicyStatus | undefined;
}

export const VOLUME_POLICIES: Resource<VolumePolicy> = {
  group: GROUP,
  version: VERSION,
  plural: "volumepolicies",
  kind: "VolumePolicy",
  namespaced: true,
};
export const CLUSTER_VOLUME_POLICIES: Resource<ClusterVolumePolicy> = {
  group: GROUP,
  version: VERSION,
  plural: "clustervolumepolicies",
  kind: "ClusterVolumePolicy",
  namespaced: false,
};

// What processes store of policies. Their authors may add a MiB of labels and annotations to each, which nothing here reads.

/** A policy may be as large as an object can be: few of them at once are read into memory. */
export const POLICY_PAGES = { pageSize: 25 } as const;

/** The policy without those labels and annotations. */
export function policyInBrief<T extends KubeObject>(policy: T): T {
  const { name, namespace, uid, generation, resourceVersion, creationTimestamp, deletionTimestamp } = policy.metadata;
  const metadata = { name, namespace, uid, generation, resourceVersion, creationTimestamp, deletionTimestamp };
  const known = Object.entries(metadata).filter(([, value]) => value !== undefined);
  return { ...policy, metadata: Object.fromEntries(known) as unknown as T["metadata"] };
}
