// The calendar fields of a timestamp, in UTC or in a named time zone.
import { failRule } from "../failure.ts";

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
