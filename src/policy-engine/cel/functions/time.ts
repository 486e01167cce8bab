// CEL's durations and timestamps as whole milliseconds, and the calendar fields of a timestamp. CEL knows nanoseconds: a text finer than a
// millisecond is refused rather than rounded.
import { failRule } from "../errors.ts";

const UNIT_NANOSECONDS: Readonly<Record<string, bigint>> = {
  h: 3_600_000_000_000n,
  m: 60_000_000_000n,
  s: 1_000_000_000n,
  ms: 1_000_000n,
  us: 1000n,
  µs: 1000n,
  ns: 1n,
};
const DURATION = /^([+-]?)((?:(?:\d+\.?\d*|\.\d+)(?:h|ms|m|s|us|µs|ns))+|0)$/;
const DURATION_PART = /(\d*)\.?(\d*)(h|ms|m|s|us|µs|ns)/g;
const MAX_DURATION_CHARS = 64;
const NANOSECONDS_PER_MS = 1_000_000n;
/** What 64 bits of nanoseconds hold, about 292 years: the range of the specification's tests (timestamps.textproto). */
const MAX_DURATION_MS = 9_223_372_036_854;

const TIMESTAMP = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))$/;
const MINUTE_MS = 60_000;
const MIN_TIMESTAMP_MS = -62_135_596_800_000; // 0001-01-01T00:00:00Z
const MAX_TIMESTAMP_MS = 253_402_300_799_999; // 9999-12-31T23:59:59.999Z

/** Milliseconds of a duration in Go's notation ("1h30m", "-1.5s"; no days). Throws EvaluationFailure. */
export function parseCelDuration(text: string): number {
  const match = text.length <= MAX_DURATION_CHARS ? DURATION.exec(text) : null;
  if (match === null) failRule(`"${text.slice(0, MAX_DURATION_CHARS)}" is not a duration such as 90s, 5m or 1h30m`);
  const [, sign, parts = ""] = match;
  let milliseconds = 0n;
  let restNanoseconds = 0n;
  for (const [, whole = "", fraction = "", unit = "s"] of parts.matchAll(DURATION_PART)) {
    const scale = 10n ** BigInt(fraction.length);
    const scaled = BigInt(whole + fraction) * (UNIT_NANOSECONDS[unit] ?? 0n);
    if (scaled % scale !== 0n) finerThanMs(text);
    milliseconds += scaled / scale / NANOSECONDS_PER_MS;
    restNanoseconds += (scaled / scale) % NANOSECONDS_PER_MS;
  }
  if (restNanoseconds % NANOSECONDS_PER_MS !== 0n) finerThanMs(text);
  const durationMs = Number(milliseconds + restNanoseconds / NANOSECONDS_PER_MS);
  return inDurationRange(sign === "-" ? 0 - durationMs : durationMs);
}

function finerThanMs(text: string): never {
  failRule(`"${text}" is finer than a millisecond`);
}

/** Milliseconds since 1970 of an RFC 3339 timestamp. Throws EvaluationFailure. */
export function parseCelTimestamp(text: string): number {
  const match = TIMESTAMP.exec(text);
  const [, local = "", fraction = "", sign, hours = "0", minutes = "0"] = match ?? [];
  const localMs = match === null ? Number.NaN : Date.parse(`${local}Z`);
  // A day such as February 30 is read as March by Date: only what prints as it was written is a date.
  const isDate = !Number.isNaN(localMs) && new Date(localMs).toISOString().startsWith(local);
  if (!isDate || Number(hours) > 23 || Number(minutes) > 59)
    failRule(`"${text.slice(0, 40)}" is not a timestamp such as 2026-01-31T12:00:00Z`);
  if (/[1-9]/.test(fraction.slice(3))) finerThanMs(text);
  const offsetMs = (Number(hours) * 60 + Number(minutes)) * MINUTE_MS * (sign === "-" ? -1 : 1);
  return inTimestampRange(localMs + Number(fraction.slice(0, 3).padEnd(3, "0")) - offsetMs);
}

/** Throws EvaluationFailure beyond the specification's range. */
export function inDurationRange(durationMs: number): number {
  if (Math.abs(durationMs) <= MAX_DURATION_MS) return durationMs + 0;
  failRule(`a duration of ${durationMs} ms is out of range`);
}

/** Throws EvaluationFailure outside the years 1 to 9999. */
export function inTimestampRange(timestampMs: number): number {
  if (timestampMs >= MIN_TIMESTAMP_MS && timestampMs <= MAX_TIMESTAMP_MS) return timestampMs;
  failRule(`a timestamp of ${timestampMs} ms since 1970 is outside the years 1 to 9999`);
}

type Field = (date: Date) => number;

const DAY_MS = 86_400_000;

/** CEL's getters. Months, days of the month, of the week and of the year count from 0; getDate counts from 1. */
export const CALENDAR_FIELDS: ReadonlyMap<string, Field> = new Map<string, Field>([
  ["getFullYear", (date) => date.getUTCFullYear()],
  ["getMonth", (date) => date.getUTCMonth()],
  ["getDate", (date) => date.getUTCDate()],
  ["getDayOfMonth", (date) => date.getUTCDate() - 1],
  ["getDayOfWeek", (date) => date.getUTCDay()],
  ["getDayOfYear", (date) => Math.floor((date.getTime() - startOfYearMs(date)) / DAY_MS)],
  ["getHours", (date) => date.getUTCHours()],
  ["getMinutes", (date) => date.getUTCMinutes()],
  ["getSeconds", (date) => date.getUTCSeconds()],
  ["getMilliseconds", (date) => date.getUTCMilliseconds()],
]);

function startOfYearMs(date: Date): number {
  const start = new Date(0);
  start.setUTCFullYear(date.getUTCFullYear()); // Date.UTC would move the years 0 to 99 to 1900
  return start.getTime();
}

/** A function from an instant to the instant whose UTC fields are the local ones. Throws EvaluationFailure for an unknown zone. */
export function localTime(timeZone: string): (timestampMs: number) => number {
  // Numeric offsets are not supported by every runtime.
  if (!/^[A-Za-z]/.test(timeZone)) unknownZone(timeZone);
  let format: Intl.DateTimeFormat;
  try {
    format = new Intl.DateTimeFormat("en-US", {
      timeZone,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
  } catch {
    unknownZone(timeZone);
  }
  return (timestampMs) => localMs(format, timestampMs);
}

function localMs(format: Intl.DateTimeFormat, timestampMs: number): number {
  const fields: Record<string, number> = {};
  for (const part of format.formatToParts(timestampMs)) fields[part.type] = Number(part.value);
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = fields;
  const local = new Date(0);
  local.setUTCFullYear(year, month - 1, day);
  local.setUTCHours(hour, minute, second, new Date(timestampMs).getUTCMilliseconds());
  return local.getTime();
}

function unknownZone(timeZone: string): never {
  failRule(`"${timeZone}" is not a time zone such as Europe/Berlin`);
}
