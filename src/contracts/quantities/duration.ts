// Durations as Go and Kubernetes write them ("1h30m", "250ms"), as milliseconds.

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const PATTERN = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/;
const PART = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g;
/** A hundred years: added to any time it is still a time. */
const LARGEST_MS = 100 * 365 * 86_400_000;

/** A duration that cannot be read; the message names the text. */
export class DurationError extends Error {
  override name = "DurationError";
}

/** Milliseconds of a duration such as "0s", "1h30m" or "7d". Throws DurationError. */
export function parseDuration(text: string): number {
  if (!PATTERN.test(text)) throw new DurationError(`"${text.slice(0, 64)}" is not a duration such as 30s, 5m or 1h30m`);
  let totalMs = 0;
  for (const [, amount, unit] of text.matchAll(PART)) totalMs += Number(amount) * (UNIT_MS[unit ?? ""] ?? 0);
  if (totalMs > LARGEST_MS) throw new DurationError(`"${text.slice(0, 64)}" is more than 36500d, the longest duration`);
  return totalMs;
}

/** A duration for people and for the API: "1h30m", "2s", "250ms", "0s". */
export function formatDuration(durationMs: number): string {
  if (durationMs < 1000) return durationMs === 0 ? "0s" : `${Math.round(durationMs)}ms`;
  let restSeconds = Math.round(durationMs / 1000);
  let text = "";
  for (const [unit, seconds] of [
    ["d", 86_400],
    ["h", 3600],
    ["m", 60],
    ["s", 1],
  ] as const) {
    const count = Math.floor(restSeconds / seconds);
    if (count > 0) text += `${count}${unit}`;
    restSeconds -= count * seconds;
  }
  return text;
}
