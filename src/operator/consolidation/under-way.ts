// How far merging a filesystem's members has come, by what Filesystem and layout say. Pure.
import type { Filesystem } from "../../api/filesystem.ts";
import type { FilesystemLayout, LastOperation } from "../../api/filesystem-layout.ts";

/** Decided, and begun: the layout has the target, or the one that comes a moment before it, and it has not ended. */
export function isMerging(layout: FilesystemLayout, filesystem: Filesystem | undefined): boolean {
  const wanted = filesystem?.spec.target;
  if (wanted?.members === undefined || outcomeOf(layout, filesystem) !== undefined) return false;
  const { target } = layout.spec;
  if (target === undefined || target.size === target.from) return false;
  return isStepOf(target.decidedAt, wanted.decidedAt);
}

/** How it ended; undefined: it has not, or none was decided. */
export function outcomeOf(
  { status }: FilesystemLayout,
  filesystem: Filesystem | undefined,
): LastOperation["outcome"] | undefined {
  const wanted = filesystem?.spec.target;
  const last = status?.lastOperation;
  if (wanted?.members === undefined || last?.decidedAt === undefined) return undefined;
  if (last.decidedAt === wanted.decidedAt) return last.outcome;
  return last.outcome !== "Succeeded" && isStepOf(last.decidedAt, wanted.decidedAt) ? last.outcome : undefined;
}

function isStepOf(decidedAt: string, wantedAt: string): boolean {
  const aheadMs = Date.parse(wantedAt) - Date.parse(decidedAt);
  return aheadMs === 0 || aheadMs === 1;
}
