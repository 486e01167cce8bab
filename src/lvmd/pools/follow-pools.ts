// Hears of thin pools that fill: LVM's metadata do not change when their volumes are written, so the kernel's counters are looked at, and
// LVM is asked again once so much was written that it matters. Of a pool that nobody writes nothing is asked.
import type { Logger } from "../../process/log.ts";
import type { DiskFigures } from "../diskstats.ts";
import type { Report } from "../lvm/report.ts";
import type { ReportCache } from "../lvm/report-cache.ts";
import { createPoolWrites, type Look, lookAtPools } from "./pool-writes.ts";

export interface FollowPoolsParts {
  readonly reports: ReportCache;
  readonly figures: () => DiskFigures;
  readonly log: Logger;
}

/** Reads one file of the kernel's memory. */
const LOOK_INTERVAL_MS = 500;
/** Then little counts as well. */
const SLOW_INTERVAL_MS = 60_000;

/** Ends with `stop`. */
export function followPools({ reports, figures, log }: FollowPoolsParts): { stop(): void } {
  const writes = createPoolWrites();
  const lookNow = (report: Report): Look => lookAtPools(report, figures(), performance.now());
  const asked = (): void => writes.asked(lookNow(reports.latest() ?? new Map()));
  asked(); // for the report that is there already
  reports.onAsk(asked);
  let slowMs = performance.now();
  const look = (): void => {
    const report = reports.latest();
    // Without one, or after a failure, it is asked again anyway.
    if (report === undefined || reports.problem() !== undefined || !hasPools(report)) return;
    const isSlow = performance.now() - slowMs >= SLOW_INTERVAL_MS;
    if (isSlow) slowMs = performance.now();
    if (writes.isDue(report, lookNow(report), isSlow)) reports.expectChange();
  };
  const timer = setInterval(() => {
    try {
      look();
    } catch (err) {
      log.warn({ err }, "could not look at what thin pools' volumes have written");
    }
  }, LOOK_INTERVAL_MS);
  return { stop: () => clearInterval(timer) };
}

function hasPools(report: Report): boolean {
  for (const { volumes } of report.values()) for (const { pool } of volumes.values()) if (pool !== "") return true;
  return false;
}
