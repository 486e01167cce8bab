// CEL's durations and timestamps as whole milliseconds. CEL knows nanoseconds: a text finer than a millisecond is refused
// rather than rounded.
import { failRule } from "../failure.ts";

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
/** The specification's range: about 10,000 years. */
const MAX_DURATION_MS = 315_576_000_000_000;

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
