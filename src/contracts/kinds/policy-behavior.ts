// spec.behavior of a policy: how often, how far and when it may change a volume, for each direction. The defaults are described here and
// decided in src/policy-engine/policies/compile-policy.ts.
import * as z from "zod";
import { duration, notLarger, SOME_TIME, writtenSize } from "../schema/schema.ts";

const window = z
  .object({
    cron: z
      .string()
      .min(9)
      .max(128)
      .meta({ description: "When the window opens: minute hour day-of-month month day-of-week, such as 0 2 * * *." }),
    duration: duration("How long it stays open.", SOME_TIME),
    timeZone: z
      .string()
      .max(64)
      .meta({ description: "IANA time zone of cron, such as Europe/Berlin. Default: UTC." })
      .optional(),
  })
  .meta({ description: "A recurring maintenance window." });

const stepBehavior = <Own extends z.ZodRawShape>(direction: string, defaultCooldown: string, own: Own) =>
  z
    .object({
      ...own,
      cooldown: duration(`Time after ${direction} before the next one. Default: ${defaultCooldown}.`).optional(),
      minStep: writtenSize("Smaller changes are skipped. Default: 1Gi, or maxStep if that is smaller.").optional(),
      maxStep: writtenSize(
        "Larger changes are split into steps of this size. Default: 100Gi, or minStep if that is larger.",
      ).optional(),
      maxPerDay: z
        .int()
        .min(1)
        .max(1440)
        .meta({ description: "Maximum number of changes in any 24 hours. Default: no limit." })
        .optional(),
      windows: z
        .array(window)
        .max(16)
        .meta({
          description: "Changes start only while one of these windows is open. Default: always.",
          "x-kubernetes-list-type": "atomic",
        })
        .optional(),
    })
    .meta({
      description: `Limits on ${direction}.`,
      "x-kubernetes-validations": [notLarger("minStep", "maxStep")],
    });
const shrinkFields = {
  stabilization: duration(
    "A filesystem is not made smaller than its peak use in this time needs, however short a rule looks back. Default: 24h. At most 7d.",
  ).optional(),
};

const extendBehavior = stepBehavior("an extend", "0s", {});
const shrinkBehavior = stepBehavior("a shrink", "6h", shrinkFields);
export type StepBehavior = z.infer<typeof extendBehavior>;
export type ShrinkBehavior = z.infer<typeof shrinkBehavior>;

export const behavior = z.object({ extend: extendBehavior.optional(), shrink: shrinkBehavior.optional() }).meta({
  description: "How often, how far and when volumes are changed, for each direction. Default: those of its fields.",
});
