// VolumePolicy and ClusterVolumePolicy: what a team, or a cluster's owner, wants of volumes. Only shapes and their rules live
// here; what a policy means is decided in src/policy-engine.
import { z } from "zod";
import type { KubeObject, Resource } from "../kube/object.ts";
import { GROUP, VERSION } from "./names.ts";
import {
  celExpression,
  conditions,
  duration,
  keyedList,
  labelSelector,
  NAME_PATTERN,
  percent,
  quantity,
} from "./schema.ts";

export const MODES = ["Enforce", "Approve", "Recommend"] as const;
export type Mode = (typeof MODES)[number];
const mode = z.enum(MODES);

const rule = z
  .object({
    name: z
      .string()
      .regex(new RegExp(NAME_PATTERN))
      .max(63)
      .meta({ description: "Names the rule in statuses, events and metrics." }),
    action: z.enum(["Extend", "Shrink"]),
    when: celExpression("CEL, evaluates to bool: the rule fires while it holds."),
    targetUsed: percent(
      "Change to the size at which this much is used, e.g. 60%. A shrink counts the peak of the rule's window.",
    ).optional(),
    by: z
      .string()
      .regex(/^[0-9]+(\.[0-9]+)?(%|[KMGTPE]i|[kMGTPE])?$/)
      .max(32)
      .meta({ description: "Change by 25% of the capacity, or by 10Gi." })
      .optional(),
    to: quantity("Change to this size.").optional(),
    toExpression: celExpression("CEL, evaluates to bytes: change to this size.").optional(),
    for: duration("The rule must have held this long.").optional(),
    messageExpression: celExpression("CEL, evaluates to string: added to the reason.").optional(),
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: "[has(self.targetUsed), has(self.by), has(self.to), has(self.toExpression)].filter(x, x).size() == 1",
        message: "exactly one of targetUsed, by, to and toExpression is required",
      },
    ],
  });
export type PolicyRule = z.infer<typeof rule>;

const stepLimits = {
  cooldown: duration("Time after a change before the next one in this direction.").optional(),
  minStep: quantity("Smaller changes are not made. Default 1Gi.").optional(),
  maxStep: quantity("Larger changes are made in steps of this. Default 100Gi.").optional(),
  maxPerDay: z
    .int()
    .min(1)
    .max(1440)
    .meta({ description: "At most this many changes in 24 hours; absent means no limit." })
    .optional(),
  windows: z
    .array(
      z.object({
        cron: z
          .string()
          .min(9)
          .max(128)
          .meta({ description: "When the window opens: minute hour day-of-month month day-of-week." }),
        duration: duration("How long it stays open."),
        timeZone: z.string().max(64).meta({ description: "IANA time zone; default UTC." }).optional(),
      }),
    )
    .max(16)
    .meta({
      description: "Changes start only inside one of these; absent means always.",
      "x-kubernetes-list-type": "atomic",
    })
    .optional(),
};
const stepBehavior = z.object(stepLimits);
export type StepBehavior = z.infer<typeof stepBehavior>;

const policyFields = {
  priority: z
    .int()
    .min(-1_000_000)
    .max(1_000_000)
    .meta({ description: "The highest wins within one scope; equal: the oldest wins and both get Conflict." })
    .optional(),
  suspend: z
    .boolean()
    .meta({ description: "Stops every change by this policy; it still wins its volumes." })
    .optional(),
  selector: labelSelector.optional(),
  storageClassNames: z.array(z.string()).max(64).meta({ "x-kubernetes-list-type": "set" }).optional(),
  mode: z
    .object({ extend: mode.optional(), shrink: mode.optional() })
    .meta({
      description:
        "Per direction: Enforce acts, Approve waits for a ScalingApproval, Recommend only says. Defaults: extend Enforce, shrink Recommend.",
    })
    .optional(),
  limits: z
    .object({
      min: quantity("Never smaller. Default: the claim's request, or the class' initialSize.").optional(),
      max: quantity("Never larger. Required where a rule extends.").optional(),
      minAvailable: quantity(
        "Fewer available bytes extend at once. Default: max(5% of capacity, 5 s of the present growth), at most 20% of capacity.",
      ).optional(),
    })
    .optional(),
  variables: keyedList(
    z.object({
      name: z
        .string()
        .regex(/^[a-zA-Z_][a-zA-Z0-9_]*$/)
        .max(63),
      expression: celExpression("CEL; later variables and all rules may use it as variables.NAME."),
    }),
    ["name"],
    32,
    "Named expressions, lazy and in order.",
  ).optional(),
  rules: keyedList(rule, ["name"], 32, "All are evaluated; any Extend beats every Shrink; then the largest size wins."),
  behavior: z.object({ extend: stepBehavior.optional(), shrink: stepBehavior.optional() }).optional(),
  onStaleMetrics: z
    .enum(["Hold", "ExtendOnly"])
    .meta({
      description:
        "Without fresh metrics: nothing, or extend on one fresh reading of the agent. Never a shrink. Default ExtendOnly.",
    })
    .optional(),
};

const MAX_NEEDED = {
  rule: "!self.rules.exists(r, r.action == 'Extend') || (has(self.limits) && has(self.limits.max))",
  message: "limits.max is required where a rule extends: a volume must not grow without a bound",
};

export const volumePolicySpec = z.object(policyFields).meta({
  description: "How the selected claims of this namespace are sized.",
  "x-kubernetes-validations": [MAX_NEEDED],
});
export type VolumePolicySpec = z.infer<typeof volumePolicySpec>;

const ceilings = z
  .object({
    max: quantity("No volume of the selected namespaces grows over this.").optional(),
    modes: z
      .object({ extend: mode.optional(), shrink: mode.optional() })
      .meta({ description: "The most that a namespaced policy may do: Enforce > Approve > Recommend." })
      .optional(),
    bytesPerNamespace: quantity("The sum of a namespace's sizes never grows over this.").optional(),
    storageClassNames: z
      .array(z.string())
      .max(64)
      .meta({ description: "Only claims of these classes may be changed.", "x-kubernetes-list-type": "set" })
      .optional(),
  })
  .meta({
    description: "Bounds on what namespaced policies may do; the strictest of all matching holds, whoever wins.",
  });

export const clusterVolumePolicySpec = z
  .object({
    ...policyFields,
    rules: policyFields.rules.optional(),
    namespaceSelector: labelSelector.optional(),
    ceilings: ceilings.optional(),
  })
  .meta({
    description: "The default for claims that no namespaced policy selects, and the ceilings over those that one does.",
    "x-kubernetes-validations": [
      {
        rule: "!has(self.rules) || !self.rules.exists(r, r.action == 'Extend') || (has(self.limits) && has(self.limits.max))",
        message: MAX_NEEDED.message,
      },
    ],
  });
export type ClusterVolumePolicySpec = z.infer<typeof clusterVolumePolicySpec>;

export const policyStatus = z.object({
  observedGeneration: z.int().min(0).optional(),
  matchedFilesystems: z.int().min(0).meta({ description: "How many filesystems this policy decides." }).optional(),
  conditions: conditions.optional(),
});
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
