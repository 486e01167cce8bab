// An age as kubectl writes it: two units at most, coarser with age. For people only.

const SECOND_MS = 1000;
const MINUTE_SECONDS = 60;
const HOUR_SECONDS = 60 * MINUTE_SECONDS;
const DAY_SECONDS = 24 * HOUR_SECONDS;
const YEAR_SECONDS = 365 * DAY_SECONDS;

/** "45s", "3m20s", "5h", "12d", "2y30d"; "<unknown>" for what is not a timestamp. */
export function formatAge(timestamp: string, nowMs: number): string {
  const atMs = Date.parse(timestamp);
  if (Number.isNaN(atMs)) return "<unknown>";
  const seconds = Math.max(0, Math.floor((nowMs - atMs) / SECOND_MS));
  if (seconds < 2 * MINUTE_SECONDS) return `${seconds}s`;
  if (seconds < 10 * MINUTE_SECONDS) return twoUnits(seconds, MINUTE_SECONDS, "m", 1, "s");
  if (seconds < 3 * HOUR_SECONDS) return `${Math.floor(seconds / MINUTE_SECONDS)}m`;
  if (seconds < 8 * HOUR_SECONDS) return twoUnits(seconds, HOUR_SECONDS, "h", MINUTE_SECONDS, "m");
  if (seconds < 2 * DAY_SECONDS) return `${Math.floor(seconds / HOUR_SECONDS)}h`;
  if (seconds < 8 * DAY_SECONDS) return twoUnits(seconds, DAY_SECONDS, "d", HOUR_SECONDS, "h");
  if (seconds < 2 * YEAR_SECONDS) return `${Math.floor(seconds / DAY_SECONDS)}d`;
  if (seconds < 8 * YEAR_SECONDS) return twoUnits(seconds, YEAR_SECONDS, "y", DAY_SECONDS, "d");
  return `${Math.floor(seconds / YEAR_SECONDS)}y`;
}

function twoUnits(seconds: number, large: number, largeUnit: string, small: number, smallUnit: string): string {
  const rest = Math.floor((seconds % large) / small);
  return `${Math.floor(seconds / large)}${largeUnit}${rest === 0 ? "" : `${rest}${smallUnit}`}`;
}
