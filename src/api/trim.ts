// How often unused blocks go back to where they came from: the thin pool of a logical volume, the host of a loop file. A policy says
// it, and the Filesystem and its layout carry it to the node, which says what it gave back. Only shapes live here.
import { z } from "zod";
import { duration, quantity, timestamp } from "./schema.ts";

export const TRIM_EVERY_MIN = "10m";
export const TRIM_EVERY_MAX = "30d";

/** Go, and so CEL, knows no days: a whole number of them stands alone. */
const SCHEDULE_PATTERN = /^(([0-9]{1,3}h)?([0-9]{1,5}m)?|[0-9]{1,2}d)$/;

/** As a policy asks for it, within bounds: more often would cost more work than it gives room. */
export const trimSchedule = z
  .object({
    every: z
      .string()
      .regex(SCHEDULE_PATTERN)
      .min(2)
      .max(32)
      .meta({
        description: `How long after a trim the next one follows: hours and minutes such as 24h or 1h30m, or whole days such as 7d, from ${TRIM_EVERY_MIN} to ${TRIM_EVERY_MAX}.`,
        "x-kubernetes-validations": [
          {
            rule:
              "self.endsWith('d') ? self.matches('^0?[1-9]d$|^[12][0-9]d$|^30d$') : " +
              "duration(self) >= duration('10m') && duration(self) <= duration('720h')",
            message: `trim.every must be from ${TRIM_EVERY_MIN} to ${TRIM_EVERY_MAX}, such as 24h`,
          },
        ],
      }),
  })
  .meta({
    description:
      "Gives unused blocks of mounted filesystems back to their thin pool or host from time to time (backends lvm and loop). Default: only after a shrink.",
  });

/** As it is carried to the node. */
export const trimRequest = z
  .object({ every: duration("How long after a trim the next one follows.") })
  .meta({ description: "Periodic trims, as the deciding policy asks for them. Absent: none." });
export type TrimRequest = z.infer<typeof trimRequest>;

export const lastTrim = z
  .object({
    endedAt: timestamp("When it ended."),
    trimmed: quantity(
      "What it gave back, as the filesystem counts it: some filesystems count blocks again that were free before. 0 where it failed.",
    ),
    message: z.string().max(32768).meta({ description: "Why it failed; absent when it succeeded." }).optional(),
  })
  .meta({ description: "The trim that ended last, by the deciding policy's schedule. Absent: none has ended yet." });
export type LastTrim = z.infer<typeof lastTrim>;
