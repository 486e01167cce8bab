// Filesystem: what users and policies see of a claim's storage. To FilesystemLayout it is as a PVC is to a PV.
import * as z from "zod";
import type { KubeObject, Resource } from "../kubernetes/object.ts";
import { GROUP, VERSION } from "../names.ts";
import { parseQuantity } from "../quantities/quantity.ts";
import { conditions, epochNumber, observedGeneration, quantity, timestamp } from "../schema/schema.ts";
import { lastTrim, trimRequest } from "./trim.ts";

/** The size that the engine wants, and the guards under which it may be carried out. */
const targetFields = {
  size: quantity("The target size."),
  from: quantity("The size at the decision; a shrink starts only while the filesystem still has this size."),
  epoch: epochNumber("The epoch of the leader that wrote it; an epoch lower than the highest seen is refused."),
  decidedAt: timestamp("When it was decided. Identifies the target, which is carried out at most once."),
  notAfter: timestamp(
    "Latest start of a shrink that needs the filesystem unmounted. Absent: such a shrink never starts.",
  ).optional(),
};
/** Of a decision, as the policy-engine's plan says it. */
const policyField = z
  .string()
  .meta({ description: "NAMESPACE/NAME of the deciding VolumePolicy, or NAME of a ClusterVolumePolicy." });
const ruleField = z.string().meta({ description: "The rule that decided. Absent: no rule did." });
const reasonField = z.string().meta({ description: "The reason, one word from docs/reference/reasons.md." });
const messageField = z.string().max(32768).meta({ description: "The reason in a sentence with figures." });

const targetMeta = {
  description: "The size that the filesystem should have. Absent: its present size.",
  "x-kubernetes-validations": [
    { rule: "self.epoch >= oldSelf.epoch", message: "epoch never falls: a newer leader has written" },
  ],
};

/** As a node carries it out. */
export const sizeTarget = z.object(targetFields).meta(targetMeta);
export type SizeTarget = z.infer<typeof sizeTarget>;

/** As the policy-engine decides it: the operator carries it out in as many steps as its members take. */
const wantedTarget = z
  .object({
    ...targetFields,
    policy: policyField.optional(),
    rule: ruleField.optional(),
    reason: reasonField.optional(),
    message: messageField.optional(),
    members: z
      .int()
      .min(1)
      .max(4)
      .meta({
        description:
          "Maximum number of members afterwards: the smallest ones are consolidated into a larger one (backend span). Absent: no maximum.",
      })
      .optional(),
  })
  .meta(targetMeta);
/** No other size is wanted than the one that there was: a shrink that runs stops, and what it has reached stays. */
export function asksToStay({ size, from }: Pick<SizeTarget, "size" | "from">): boolean {
  return parseQuantity(size) === parseQuantity(from);
}

export type WantedTarget = z.infer<typeof wantedTarget>;

const claimFields = {
  name: z.string().meta({ description: "The claim's name." }),
  uid: z.string().meta({ description: "The claim's UID; it differs for a claim that was deleted and created again." }),
};

export const claimReference = z
  .object({ namespace: z.string().meta({ description: "The claim's namespace." }).optional(), ...claimFields })
  .meta({ description: "The PersistentVolumeClaim of the filesystem." });

export const filesystemSpec = z
  .object({
    claimRef: z
      .object(claimFields)
      .meta({ description: "The PersistentVolumeClaim in this namespace that uses this filesystem." })
      .optional(),
    target: wantedTarget.optional(),
    trim: trimRequest.optional(),
  })
  .meta({
    description: "The claim, and the size decided by the policy-engine. Written by Tidemark only.",
  });
export type FilesystemSpec = z.infer<typeof filesystemSpec>;

/** As many as any sensible maxPerDay; the hour's limit of 60 is among them. */
export const CHANGE_TIMES_LIMIT = 100;
/** The newest two decide; more show how it went on. */
export const FLAP_TIMES_LIMIT = 16;
/** After so many in a row the window is too short. */
export const MISSED_WINDOWS_LIMIT = 2;
const changeTimes = (description: string, most = CHANGE_TIMES_LIMIT) =>
  z
    .array(timestamp("When a change ended."))
    .max(most)
    .meta({ description, "x-kubernetes-list-type": "atomic" })
    .optional();

const scalingFields = {
  policy: policyField.optional(),
  rule: ruleField.optional(),
  plan: z
    .enum(["extend", "shrink", "hold"])
    .meta({ description: "Whether the filesystem grows, shrinks, or keeps its size." }),
  reason: reasonField,
  message: messageField,
  target: quantity("The planned size. Absent for hold.").optional(),
  uncapped: quantity("The size the rule asks for, before limits, ceilings and steps.").optional(),
  preview: z
    .string()
    .max(1024)
    .meta({ description: "What mode Enforce would do, in mode Approve or Recommend." })
    .optional(),
  decidedAt: timestamp("When this plan was first decided.").optional(),
  nextEligibleTime: timestamp(
    "The earliest time of the next change, by cooldown, maintenance window, daily limit or ceiling.",
  ).optional(),
  extendedAt: changeTimes(
    "Extends in the last 24 hours. Recorded so that limits survive a restart of the policy-engine.",
  ),
  shrunkAt: changeTimes("Shrinks in the last 24 hours."),
  flappedAt: changeTimes(
    "Flaps in the last 14 days: the first extend within 24 hours after a shrink, at no more use than in the 24 hours before it. Two within 7 days raise the stabilization of shrinks to at least 24h for 7 days.",
    FLAP_TIMES_LIMIT,
  ),
  peakBeforeShrink: quantity("The most used in the 24 hours before the last shrink.").optional(),
  missedWindows: z
    .object({
      decidedAt: z
        .array(timestamp("When a shrink was decided."))
        .max(MISSED_WINDOWS_LIMIT)
        .meta({ description: "The decisions of these shrinks.", "x-kubernetes-list-type": "atomic" }),
      size: quantity("The size on which they were decided."),
      used: quantity("The bytes in use when the last one was stopped."),
      policy: policyField,
      policyGeneration: z.int().min(0).meta({ description: "The generation of that policy." }).optional(),
    })
    .meta({
      description:
        "The last shrinks, stopped by the end of their windows before a first step was done. After two in a row none is begun until the policy, the size, or the use by 5% changes.",
    })
    .optional(),
};
export const scalingStatus = z.object(scalingFields).meta({
  description:
    "The last decision about the size, and why. Written by the policy-engine when it changes. An extend is in spec.target.",
});
export type ScalingStatus = z.infer<typeof scalingStatus>;

/** How long after its decision a merge whose new member is not in yet holds the policy-engine's rules; then the operator gives it up. */
export const CONSOLIDATION_LIMIT_MS = 600_000;

/**
 * The members of a filesystem take attach slots that a pod lacks on their node. The operator writes it, the policy-engine decides whether
 * the members may be merged.
 */
const consolidationNeed = z
  .object({
    pod: z
      .string()
      .max(320)
      .meta({
        description: "NAMESPACE/NAME of the pod that waits for attach slots. Absent: the pod is in another namespace.",
      })
      .optional(),
    node: z.string().max(253).meta({ description: "The node of this filesystem, which has too few attach slots." }),
    members: z.int().min(1).max(4).meta({ description: "The number of members after consolidation." }),
    growth: quantity("Extra capacity used during consolidation, until the other members have left."),
    message: z.string().max(32768).meta({ description: "Which pod waits for how many slots." }),
    obstacle: z
      .string()
      .max(1024)
      .meta({ description: "Why its members cannot be consolidated now. Absent: they can." })
      .optional(),
  })
  .meta({
    description:
      "A pod lacks attach slots on its node; fewer and larger members would free them. Absent: no pod lacks slots.",
  });
export type ConsolidationNeed = z.infer<typeof consolidationNeed>;

export const filesystemStatus = z
  .object({
    observedGeneration: observedGeneration.optional(),
    capacity: quantity(
      "The present size: the sum of its members. While a member is missing: the last known size.",
    ).optional(),
    volumeHandle: z
      .string()
      .meta({ description: "The name of its FilesystemLayout, and its CSI volume handle." })
      .optional(),
    nodeName: z.string().meta({ description: "The node that stores its data or has it mounted." }).optional(),
    scaling: scalingStatus.optional(),
    consolidation: consolidationNeed.optional(),
    lastTrim: lastTrim.optional(),
    conditions: conditions.optional(),
  })
  .meta({ description: "The present size, the node, and the last decision." });
export type FilesystemStatus = z.infer<typeof filesystemStatus>;

export interface Filesystem extends KubeObject {
  kind: "Filesystem";
  spec: FilesystemSpec;
  status?: FilesystemStatus | undefined;
}

export const FILESYSTEMS: Resource<Filesystem> = {
  group: GROUP,
  version: VERSION,
  plural: "filesystems",
  kind: "Filesystem",
  namespaced: true,
};
