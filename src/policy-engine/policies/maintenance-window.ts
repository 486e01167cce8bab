// The times at which changes may start: a cron pattern that opens a window, and how long it stays open. Pure in spite of the
// cron package: it is asked about given instants only and never schedules anything.
import { Cron } from "croner";
import { formatDuration } from "../../contracts/quantities/duration.ts";

export interface MaintenanceWindow {
  /** As people write it: "0 2 * * * for 3h (Europe/Berlin)". */
  readonly text: string;
  isOpen(nowMs: number): boolean;
  /** When it closes, where it is open; undefined: it is not. */
  closesMs(nowMs: number): number | undefined;
  /** When it opens next after nowMs; undefined: never again. */
  nextOpenMs(nowMs: number): number | undefined;
}

/** A pattern or zone that cannot be used; the message names it. */
export class MaintenanceWindowError extends Error {
  override name = "MaintenanceWindowError";
}

// Five plain fields. The package would also take seconds, nicknames and "?", which stands for the clock at compile time.
const FIVE_FIELDS = /^[0-9A-Za-z*,/-]+(?: +[0-9A-Za-z*,/-]+){4}$/;
const DEFAULT_TIME_ZONE = "UTC";

/** Throws MaintenanceWindowError. */
export function createMaintenanceWindow(
  cron: string,
  durationMs: number,
  timeZone = DEFAULT_TIME_ZONE,
): MaintenanceWindow {
  if (!FIVE_FIELDS.test(cron))
    throw new MaintenanceWindowError(`"${cron}" is not five cron fields: minute hour day-of-month month day-of-week`);
  const job = parse(cron, timeZone);
  const nextAfter = (afterMs: number): number | undefined => job.nextRun(new Date(Math.max(0, afterMs)))?.getTime();
  if (nextAfter(0) === undefined) throw new MaintenanceWindowError(`"${cron}" never opens: there is no such day`);
  /** Of the opening that it is open by. */
  const openedMs = (nowMs: number): number | undefined => {
    const nextMs = nextAfter(nowMs - durationMs);
    return nextMs !== undefined && nextMs <= nowMs ? nextMs : undefined;
  };
  return {
    text: `${cron} for ${formatDuration(durationMs)} (${timeZone})`,
    isOpen: (nowMs) => openedMs(nowMs) !== undefined,
    closesMs: (nowMs) => {
      const sinceMs = openedMs(nowMs);
      return sinceMs === undefined ? undefined : sinceMs + durationMs;
    },
    nextOpenMs: nextAfter,
  };
}

function parse(cron: string, timeZone: string): Cron {
  try {
    new Intl.DateTimeFormat("en", { timeZone });
  } catch {
    throw new MaintenanceWindowError(`"${timeZone}" is not a time zone such as Europe/Berlin`);
  }
  try {
    return new Cron(cron, { mode: "5-part", timezone: timeZone, paused: true });
  } catch (error) {
    const why = (error as Error).message.replace(/^CronPattern: /, "");
    throw new MaintenanceWindowError(`"${cron}" is not a cron pattern: ${why}`);
  }
}
