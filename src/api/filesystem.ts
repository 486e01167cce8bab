// Filesystem: what users and policies see of a claim's storage. To FilesystemLayout it is as a PVC is to a PV.
import { z } from "zod";
import type { KubeObject, Resource } from "../kube/object.ts";
import { parseQuantity } from "../units/quantity.ts";
import { consolidationNeed } from "./consolidation.ts";
import { GROUP, VERSION } from "./names.ts";
import { conditions, epochNumber, observedGeneration, quantity, timestamp } from "./schema.ts";
import { lastTrim, trimRequest } from "./trim.ts";

/** The size that the engine wants, and the guards under which it may be carried out. */
const targetFields = {
  size: quantity("The wanted size."),
  from: quantity("The size this was decided on; a shrink is carried out only while it still holds."),
  epoch: epochNumber("The number of the leader that wrote it; a lower one than was seen before is refused."),
  decidedAt: timestamp("When it was decided; names the target, which is carried out at most once."),
  notAfter: timestamp(
    "A shrink of a filesystem that must be unmounted for it begins before this, or not at all; absent: such a shrink never begins.",
  ).optional(),
};
const targetMeta = {
  description: "The size that the filesystem should get. Absent: it keeps the size that it has.",
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
    members: z
      .int()
      .min(1)
      .max(4)
      .meta({
        description:
          "The most members that it shall have then: its smallest ones are merged into a larger one (backend span). Absent: any.",
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
  uid: z.string().meta({ description: "The claim's UID: a claim of the same name that was made anew is another one." }),
};

export const claimReference = z
  .object({ namespace: z.string().meta({ description: "The claim's namespace." }).optional(), ...claimFields })
  .meta({ description: "The PersistentVolumeClaim that the filesystem was made for." });

export const filesystemSpec = z
  .object({
    claimRef: z
      .object(claimFields)
      .meta({ description: "The PersistentVolumeClaim of this namespace whose storage this is." })
      .optional(),
    target: wantedTarget.optional(),
    trim: trimRequest.optional(),
  })
  .meta({
    description: "What should be: the claim, and the size that the policy-engine wants. Written by Tidemark only.",
  });
export type FilesystemSpec = z.infer<typeof filesystemSpec>;

/** As many as any sensible maxPerDay; the hour's limit of 60 is among them. */
export const CHANGE_TIMES_LIMIT = 100;
const changeTimes = (description: string) =>
  z
    .array(timestamp("When a change ended."))
    .max(CHANGE_TIMES_LIMIT)
    .meta({ description, "x-kubernetes-list-type": "atomic" })
    .optional();

const scalingFields = {
  policy: z
    .string()
    .meta({ description: "NAMESPACE/NAME of the deciding VolumePolicy, or NAME of a ClusterVolumePolicy." })
    .optional(),
  rule: z.string().meta({ description: "The rule that decided; absent where none did." }).optional(),
  plan: z
    .enum(["extend", "shrink", "hold"])
    .meta({ description: "What is done: the filesystem grows, shrinks, or keeps its size." }),
  reason: z.string().meta({ description: "Why, in one word of docs/reference/reasons.md." }),
  message: z.string().max(32768).meta({ description: "Why, in a sentence with figures." }),
  target: quantity("The size that the plan asks for; absent for hold.").optional(),
  uncapped: quantity("What the rule asks for without limits, ceilings and steps.").optional(),
  preview: z
    .string()
    .max(1024)
    .meta({ description: "What would happen in the modes Recommend and Approve." })
    .optional(),
  decidedAt: timestamp("When this plan was first made.").optional(),
  nextEligibleTime: timestamp("The earliest time of the next change: cooldown, window or daily limit.").optional(),
  extendedAt: changeTimes("The extends of the last 24 hours, so that limits outlive a restart of the engine."),
  shrunkAt: changeTimes("The shrinks of the last 24 hours."),
};
export const scalingStatus = z.object(scalingFields).meta({
  description: "What was decided last about the size, and why. Written by the policy-engine, on change only.",
});
export type ScalingStatus = z.infer<typeof scalingStatus>;

export const filesystemStatus = z
  .object({
    observedGeneration: observedGeneration.optional(),
    capacity: quantity(
      "The present size: that of its members, all together; the last known one while one is missing.",
    ).optional(),
    volumeHandle: z
      .string()
      .meta({ description: "The name of its FilesystemLayout, and of the volume in CSI." })
      .optional(),
    nodeName: z.string().meta({ description: "The node that has its data." }).optional(),
    scaling: scalingStatus.optional(),
    consolidation: consolidationNeed.optional(),
    lastTrim: lastTrim.optional(),
    conditions: conditions.optional(),
  })
  .meta({ description: "What is: the size, where it is, and what was decided about it." });
export type FilesystemStatus = z.infer<typeof filesystemStatus>;

export interface Filesystem extends KubeObject {
  kind: "Filesystem";
  spec: FilesystemSpec;
  status?: FilesystemStatus;
}

export const FILESYSTEMS: Resource<Filesystem> = {
  group: GROUP,
  version: VERSION,
  plural: "filesystems",
  kind: "Filesystem",
  namespaced: true,
};
