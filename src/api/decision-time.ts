// The time that names a target. Agent and operator carry out only what was decided after the last thing they know of, so a
// clock that is behind (another node's, or one that was set back) must not make new decisions look old. Pure.
import type { Filesystem, SizeTarget } from "./filesystem.ts";
import type { FilesystemLayout } from "./filesystem-layout.ts";

/** Now, or a moment after the latest decision that is known of the volume; `aheadMs` later where another one is to fit between. */
export function decisionTime(
  nowMs: number,
  layout: FilesystemLayout,
  filesystem?: Filesystem,
  aheadMs = 0,
): SizeTarget["decidedAt"] {
  const { spec, status } = layout;
  const known = [filesystem?.spec.target, spec.target, status?.operation, status?.lastOperation];
  const names = [...known.map((decided) => decided?.decidedAt), status?.endedDecidedAt];
  const knownMs = names.map((decidedAt) => Date.parse(decidedAt ?? "")).filter((ms) => ms < LATEST_MS);
  return new Date(Math.max(nowMs, ...knownMs.map((ms) => ms + 1)) + aheadMs).toISOString();
}

/** RFC 3339 has four digits for the year. */
const LATEST_MS = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

/** What takes two steps has the first one decided this much before it. */
export const STEP_AHEAD_MS = 1;

/** When the first step of what was decided then is decided. */
export function stepBefore(decidedAt: string): string {
  return new Date(Date.parse(decidedAt) - STEP_AHEAD_MS).toISOString();
}

export function isStepBefore(stepAt: string, decidedAt: string): boolean {
  return Date.parse(stepAt) === Date.parse(decidedAt) - STEP_AHEAD_MS;
}
