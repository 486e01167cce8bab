// spec.behavior of a policy: how often, how far and when it may change a volume, for each direction. What is absent has the
// policy-engine's defaults, which are told here and decided in src/policy-engine/policies/compile-pace.ts.
import { z } from "zod";
import { notLarger, SOME_TIME, USABLE_SIZE } from "./admission-rules.ts";
import { duration, quantity } from "./schema.ts";

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
  .meta({ description: "A maintenance window, which opens again and again." });

const stepBehavior = (direction: string, defaultCooldown: string) =>
  z
    .object({
      cooldown: duration(`Time after ${direction} before the next one. Default: ${defaultCooldown}.`).optional(),
      minStep: quantity(
        "A smaller change is not made. Default: 1Gi, or maxStep where that is smaller.",
        ...USABLE_SIZE,
      ).optional(),
      maxStep: quantity(
        "A larger change is made in steps of this. Default: 100Gi, or minStep where that is larger.",
        ...USABLE_SIZE,
      ).optional(),
      maxPerDay: z
        .int()
        .min(1)
        .max(1440)
        .meta({ description: "At most this many changes in any 24 hours. Default: no limit." })
        .optional(),
      windows: z
        .array(window)
        .max(16)
        .meta({
          description: "Changes start only while one of these is open. Default: always.",
          "x-kubernetes-list-type": "atomic",
        })
        .optional(),
    })
    .meta({
      description: `The pace of ${direction}.`,
      "x-kubernetes-validations": [notLarger("minStep", "maxStep")],
    });
export type StepBehavior = z.infer<ReturnType<typeof stepBehavior>>;

export const behavior = z
  .object({
    extend: stepBehavior("an extend", "0s").optional(),
    shrink: stepBehavior("a shrink", "6h").optional(),
  })
  .meta({
    description: "How often, how far and when volumes are changed, for each direction. Default: those of its fields.",
  });
