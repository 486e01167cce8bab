// Until when the owner of a claim has paused what its policy does, by an annotation on the claim. Pure.
import { PAUSED_UNTIL_ANNOTATION } from "../../contracts/names.ts";
import { withDetail } from "../../contracts/printable.ts";
import { formatDuration } from "../../contracts/quantities/duration.ts";
import type { Facts } from "./facts.ts";

/** Unreadable: what it was meant to say is unknown. Extends go on as if it were absent, and nothing shrinks. */
export type Pause =
  | { readonly kind: "Paused"; readonly untilMs: number }
  | { readonly kind: "Unreadable"; readonly message: string };

const DAY_MS = 86_400_000;
/** A year that is mistyped pauses nothing for years. */
const LONGEST_PAUSE_MS = 30 * DAY_MS;

const RFC_3339 = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/;

/** Undefined: the claim is not paused, or not any longer. */
export function pauseOf({ claim, nowMs }: Pick<Facts, "claim" | "nowMs">): Pause | undefined {
  const text = claim.annotations[PAUSED_UNTIL_ANNOTATION];
  if (text === undefined) return undefined;
  const untilMs = readTime(text);
  if (untilMs === undefined)
    return unreadable(
      `write ${PAUSED_UNTIL_ANNOTATION} as 2026-01-31T18:00:00Z is written; until then nothing shrinks`,
      text,
    );
  if (untilMs - nowMs > LONGEST_PAUSE_MS)
    return unreadable(
      `lower ${PAUSED_UNTIL_ANNOTATION} to ${formatDuration(LONGEST_PAUSE_MS)} ahead at most; until then nothing shrinks`,
      text,
    );
  return untilMs > nowMs ? { kind: "Paused", untilMs } : undefined;
}

/** Whether its policy's own rules make nothing larger now. */
export function isPaused(facts: Pick<Facts, "claim" | "nowMs">): boolean {
  return pauseOf(facts)?.kind === "Paused";
}

function unreadable(what: string, text: string): Pause {
  return { kind: "Unreadable", message: withDetail(what, text) };
}

/** Unix milliseconds; undefined: it is not a time, or has no such day. */
function readTime(text: string): number | undefined {
  const [, year = "", month = "", day = ""] = RFC_3339.exec(text) ?? [];
  const ms = Date.parse(text);
  const daysOfMonth = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate();
  return year === "" || Number.isNaN(ms) || Number(day) > daysOfMonth ? undefined : ms;
}
