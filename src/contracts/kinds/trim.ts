// How often unused blocks go back to where they came from: the thin pool of a logical volume, the host of a loop file. A policy says
// it, and the Filesystem and its layout carry it to the node, which says what it gave back. Only shapes live here.
import * as z from "zod";
import { duration, quantity, timestamp, writtenText } from "../schema/schema.ts";

export const TRIM_EVERY_MIN = "10m";
export const TRIM_EVERY_MAX = "30d";

/** Go, and so CEL, knows no days: a whole number of them stands alone. */
const SCHEDULE = {
  pattern: "^(([0-9]{1,3}h)?([0-9]{1,5}m)?|[0-9]{1,2}d)$",
  message: "write hours and minutes such as 24h or 1h30m, or whole days such as 7d",
};

/** As a policy asks for it, within bounds: more often would cost more work than it gives room. */
export const trimSchedule = z
  .object({
    every: writtenText(
      SCHEDULE,
      32,
      `Interval between trims: hours and minutes such as 24h or 1h30m, or whole days such as 7d, from ${TRIM_EVERY_MIN} to ${TRIM_EVERY_MAX}.`,
      {
        rule:
          `!self.matches('${SCHEDULE.pattern}') || (self.endsWith('d') ? self.matches('^0?[1-9]d$|^[12][0-9]d$|^30d$') : ` +
          "self != '' && duration(self) >= duration('10m') && duration(self) <= duration('720h'))",
        message: `trim.every must be from ${TRIM_EVERY_MIN} to ${TRIM_EVERY_MAX}, such as 24h`,
      },
    ),
  })
  .meta({
    description:
      "Periodically returns unused blocks of mounted filesystems to their thin pool or host (backends lvm and loop). Default: only after a shrink.",
  });

/** As it is carried to the node. */
export const trimRequest = z
  .object({ every: duration("Interval between trims.") })
  .meta({ description: "Periodic trims, as the deciding policy requests them. Absent: no periodic trims." });
export type TrimRequest = z.infer<typeof trimRequest>;

export const lastTrim = z
  .object({
    endedAt: timestamp("When it ended."),
    trimmed: quantity(
      "Bytes returned, as the filesystem counts them; some filesystems count blocks that were already free. 0 if it failed.",
    ),
    message: z.string().max(32768).meta({ description: "Why it failed. Absent: it succeeded." }).optional(),
  })
  .meta({ description: "The last periodic trim. Absent: none has ended yet." });
export type LastTrim = z.infer<typeof lastTrim>;
