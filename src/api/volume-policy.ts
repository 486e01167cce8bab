// VolumePolicy and ClusterVolumePolicy: what a team, or a cluster's owner, wants of volumes. Only shapes and their rules live
// here; what a policy means is decided in src/policy-engine.
import { z } from "zod";
import type { KubeObject, Resource } from "../kube/object.ts";
import {
  EXPRESSIONS_WITHIN_BUDGET,
  notLarger,
  SHRINK_LEAVES_SOMETHING,
  SOME_DIFFERENCE,
  smaller,
  USABLE_SIZE,
  USABLE_TARGET,
} from "./admission-rules.ts";
import { GROUP, VERSION } from "./names.ts";
import { behavior } from "./policy-behavior.ts";
import {
  celExpression,
  conditions,
  duration,
  keyedList,
  labelSelector,
  NAME_PATTERN,
  observedGeneration,
  percent,
  quantity,
} from "./schema.ts";
import { thinPoolRule } from "./thin-pool-rule.ts";
import { trimSchedule } from "./trim.ts";

export const CLAIM_BACKENDS = ["Disabled", "Enabled"] as const;
export type ClaimBackend = (typeof CLAIM_BACKENDS)[number];

export const MODES = ["Enforce", "Approve", "Recommend"] as const;
export type Mode = (typeof MODES)[number];
/** What an absent mode means: the API server writes it down, the policy-engine reads it so. */
export const DEFAULT_MODES = { extend: "Enforce", shrink: "Recommend" } as const satisfies Record<string, Mode>;

const rule = z
  .object({
    name: z
      .string()
      .regex(new RegExp(NAME_PATTERN))
      .max(63)
      .meta({ description: "Names the rule in statuses, events and metrics." }),
    action: z.enum(["Extend", "Shrink"]).meta({ description: "Whether the rule makes volumes larger or smaller." }),
    when: celExpression(
      "CEL, evaluates to bool: the rule fires while it holds. It may read volume, node, variables and now, such as volume.usedRatio >= 0.8.",
    ),
    targetUsed: percent(
      "Change to the size at which this much is used: at least 1% and less than 100%. A shrink counts the peak of the rule's window.",
      USABLE_TARGET,
    ).optional(),
    by: z
      .string()
      .regex(/^[0-9]+(\.[0-9]+)?(%|[KMGTPE]i|[kMGTPE])?$/)
      .max(32)
      .meta({
        description:
          "Change by this much: a percentage of the capacity, such as 25%, or a size in bytes, such as 10Gi.",
        "x-kubernetes-validations": [SOME_DIFFERENCE],
      })
      .optional(),
    to: quantity("Change to this size.", ...USABLE_SIZE).optional(),
    toExpression: celExpression("CEL, evaluates to bytes: change to this size.").optional(),
    for: duration("How long the condition must have held without a break. Default: 0s.").optional(),
    messageExpression: celExpression(
      "CEL, evaluates to string: added to the reason that the status gives. Default: nothing is added.",
    ).optional(),
  })
  .meta({
    description: "When volumes are changed, and to which size: exactly one of targetUsed, by, to and toExpression.",
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
  name: z
    .string()
    .regex(/^[a-zA-Z_][a-zA-Z0-9_]*$/)
    .max(63)
    .meta({ description: "The name under which expressions find it, as variables.NAME." }),
  expression: celExpression("CEL; later variables and all rules may use it as variables.NAME."),
});

const limits = z
  .object({
    min: quantity(
      "Never smaller; a volume that is smaller is extended to it. Default: the claim's request, or the class' initialSize.",
      ...USABLE_SIZE,
    ).optional(),
    max: quantity(
      "Never larger. Required where a rule extends. A policy of a namespace also stops at 10 times the claim's request, unless a ClusterVolumePolicy that selects the claim has ceilings.max.",
      ...USABLE_SIZE,
    ).optional(),
    minAvailable: quantity(
      "Fewer available bytes extend at once. Default: max(5% of capacity, 5 s of the present growth), at most 20% of capacity.",
      ...USABLE_SIZE,
    ).optional(),
  })
  .meta({
    description: "Bounds on the size of every volume that this policy decides.",
    "x-kubernetes-validations": [notLarger("min", "max"), smaller("minAvailable", "max")],
  });

const modeOf = (description: string) => z.enum(MODES).meta({ description });

const mode = z
  .object({
    extend: modeOf("What is done when a volume should be larger. Default: Enforce.")
      .meta({ default: DEFAULT_MODES.extend })
      .optional(),
    shrink: modeOf("What is done when a volume should be smaller. Default: Recommend.")
      .meta({ default: DEFAULT_MODES.shrink })
      .optional(),
  })
  .meta({
    description:
      "For each direction: Enforce acts, Recommend only says what it would do, Approve says it and waits (nobody can approve yet in this version).",
    default: {},
  });

const policyFields = {
  priority: z
    .int()
    .min(-1_000_000)
    .max(1_000_000)
    .meta({
      description: "The highest wins within one scope; equal: the oldest wins and both get Conflict. Default: 0.",
    })
    .optional(),
  suspend: z
    .boolean()
    .meta({ description: "Stops every change by this policy; it still wins its volumes. Default: false." })
    .optional(),
  selector: labelSelector("Claims by their labels. Default: every claim.").optional(),
  storageClassNames: z
    .array(z.string().meta({ description: "The name of a StorageClass.", maxLength: 253 }))
    .max(64)
    .meta({
      description: "Only claims of these StorageClasses. Default: claims of every class.",
      "x-kubernetes-list-type": "set",
    })
    .optional(),
  mode: mode.optional(),
  limits: limits.optional(),
  variables: keyedList(
    variable.meta({ description: "A named expression." }),
    ["name"],
    32,
    "Named expressions, evaluated in order and only where they are used. Default: none.",
  ).optional(),
  rules: keyedList(rule, ["name"], 32, "All are evaluated; any Extend beats every Shrink; then the largest size wins."),
  behavior: behavior.optional(),
  trim: trimSchedule.optional(),
  claimBackend: z
    .enum(CLAIM_BACKENDS)
    .meta({
      description:
        "Enabled: claims of other drivers' expandable classes that this policy decides are extended, too, by raising their request. Default: Disabled.",
    })
    .optional(),
  onStaleMetrics: z
    .enum(["Hold", "ExtendOnly"])
    .meta({
      description:
        "Without fresh metrics: nothing (Hold), or an extend on one fresh reading of the agent (ExtendOnly). Never a shrink. Default: ExtendOnly.",
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

const ceilings = z
  .object({
    max: quantity("No volume of the selected claims grows over this. Default: no ceiling.", ...USABLE_SIZE).optional(),
    modes: z
      .object({
        extend: modeOf("The most that may be done to extend. Default: Enforce.").optional(),
        shrink: modeOf("The most that may be done to shrink. Default: Enforce.").optional(),
      })
      .meta({ description: "The most that a policy may do, for each direction: Enforce > Approve > Recommend." })
      .optional(),
    bytesPerNamespace: quantity(
      "No volume grows while what its namespace's volumes have, are growing to and may grow to by an emergency grant would then add up to more. Default: no ceiling.",
      ...USABLE_SIZE,
    ).optional(),
    storageClassNames: z
      .array(z.string().meta({ description: "The name of a StorageClass.", maxLength: 253 }))
      .max(64)
      .meta({
        description: "Only claims of these StorageClasses may be changed. Default: claims of every class.",
        "x-kubernetes-list-type": "set",
      })
      .optional(),
  })
  .meta({
    description:
      "Bounds on what policies may do to the selected claims; the strictest of all matching holds, whoever wins. Default: none.",
  });

export const clusterVolumePolicySpec = z
  .object({
    ...policyFields,
    rules: policyFields.rules.optional(),
    namespaceSelector: labelSelector("Namespaces by their labels. Default: every namespace.").optional(),
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
    matchedFilesystems: z.int().min(0).meta({ description: "How many filesystems this policy decides." }).optional(),
    reach: quantity(
      "The most that these filesystems may have in all, by limits, ceilings and classes. Quotas and the room that there is may leave less.",
    ).optional(),
    withoutCeiling: z
      .int()
      .min(0)
      .meta({
        description:
          "How many of these filesystems no ClusterVolumePolicy bounds, by ceilings.max or bytesPerNamespace.",
      })
      .optional(),
    conditions: conditions.optional(),
  })
  .meta({ description: "What the policy-engine makes of the policy." });
export type PolicyStatus = z.infer<typeof policyStatus>;

export interface VolumePolicy extends KubeObject {
  kind: "VolumePolicy";
  spec: VolumePolicySpec;
  status?: PolicyStatus;
}

export interface ClusterVolumePolicy extends KubeObject {
  kind: "ClusterVolumePolicy";
  spec: ClusterVolumePolicySpec;
  status?: PolicyStatus;
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
