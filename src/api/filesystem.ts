// Filesystem: what users and policies see of a claim's storage. To FilesystemLayout it is as a PVC is to a PV.
import { z } from "zod";
import type { KubeObject, Resource } from "../kube/object.ts";
import { GROUP, VERSION } from "./names.ts";
import { conditions, quantity, timestamp } from "./schema.ts";

/** The size that the engine wants, and the guards under which it may be carried out. */
export const sizeTarget = z
  .object({
    size: quantity("The wanted size."),
    from: quantity("The size this was decided on; a shrink is carried out only while it still holds."),
    epoch: z.int().min(0).meta({ description: "The writing leader's epoch; a lower one is refused." }),
    decidedAt: timestamp("When it was decided; names the target, which is carried out at most once."),
  })
  .meta({
    "x-kubernetes-validations": [
      { rule: "self.epoch >= oldSelf.epoch", message: "epoch never falls: a newer leader has written" },
    ],
  });
export type SizeTarget = z.infer<typeof sizeTarget>;

export const claimReference = z.object({ namespace: z.string().optional(), name: z.string(), uid: z.string() });

export const filesystemSpec = z.object({
  claimRef: z.object({ name: z.string(), uid: z.string() }).optional(),
  target: sizeTarget.optional(),
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

export const scalingStatus = z.object({
  policy: z
    .string()
    .meta({ description: "NAMESPACE/NAME of the deciding VolumePolicy, or NAME of a ClusterVolumePolicy." })
    .optional(),
  rule: z.string().optional(),
  plan: z.enum(["extend", "shrink", "hold"]),
  reason: z.string(),
  message: z.string().max(32768),
  target: quantity("The size that the plan asks for.").optional(),
  uncapped: quantity("What it would ask for without limits, ceilings and steps.").optional(),
  preview: z
    .string()
    .max(1024)
    .meta({ description: "What would happen in the modes Recommend and Approve." })
    .optional(),
  decidedAt: timestamp("When this plan was first made.").optional(),
  nextEligibleTime: timestamp("The earliest time of the next change: cooldown, window or daily limit.").optional(),
  extendedAt: changeTimes("The extends of the last 24 hours, so that limits outlive a restart of the engine."),
  shrunkAt: changeTimes("The shrinks of the last 24 hours."),
});
export type ScalingStatus = z.infer<typeof scalingStatus>;

export const filesystemStatus = z.object({
  observedGeneration: z.int().min(0).optional(),
  capacity: quantity("The present size.").optional(),
  volumeHandle: z.string().meta({ description: "The FilesystemLayout's name." }).optional(),
  nodeName: z.string().optional(),
  scaling: scalingStatus.optional(),
  conditions: conditions.optional(),
});
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
