// Which of two decisions is the later one, by epoch and by time. Agent and operator carry out only what was decided after the last decision
// they know. A clock that is behind must not make new decisions look old. Pure.
import type { Filesystem, SizeTarget } from "../kinds/filesystem.ts";
import type { FilesystemLayout } from "../kinds/filesystem-layout.ts";

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

/** The highest epoch that the layout carries: a write under a lower one is a deposed leader's. */
export function highestEpoch({ spec, status }: FilesystemLayout): number {
  return Math.max(
    0,
    spec.target?.epoch ?? 0,
    spec.emergency?.epoch ?? 0,
    status?.epoch ?? 0,
    status?.operation?.epoch ?? 0,
    status?.lastOperation?.epoch ?? 0,
  );
}
