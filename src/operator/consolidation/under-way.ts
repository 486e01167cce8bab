// How far merging a filesystem's members has come, by what Filesystem and layout say. Pure.
import { isStepBefore } from "../../api/decision-time.ts";
import { isEmergencySince } from "../../api/emergency-since.ts";
import type { Filesystem } from "../../api/filesystem.ts";
import type { FilesystemLayout, LastOperation } from "../../api/filesystem-layout.ts";
import { highestEpoch } from "../../api/highest-epoch.ts";
import { isOnlyOrdered } from "../member/decide-consolidation.ts";
import { isOfSize } from "../volume/layout-facts.ts";

/**
 * Decided, and begun: a new member is made for it, or the layout has the target, or the one that comes a moment before it, and it has
 * not ended.
 */
export function isMerging(layout: FilesystemLayout, filesystem: Filesystem | undefined): boolean {
  const wanted = filesystem?.spec.target;
  if (wanted?.members === undefined || outcomeOf(layout, filesystem) !== undefined) return false;
  // A deposed leader's is carried on by nobody; what its node has begun goes on.
  if (wanted.epoch < highestEpoch(layout) && !layout.status?.operation) return false;
  // Where it is mounted nowhere it has its slots no more.
  if (isOnlyOrdered(layout, wanted)) return layout.status?.mounted === true;
  const { target } = layout.spec;
  if (target === undefined || target.size === target.from) return false;
  // While this step has not ended, and the size is that it was decided on, none has come since, whatever its node's clock was in one before.
  const hasEnded = Date.parse(layout.status?.endedDecidedAt ?? "") >= Date.parse(target.decidedAt);
  const isChanged = hasEnded || !isOfSize(layout, target.from);
  if (isChanged && isEmergencySince(layout, wanted.decidedAt)) return false;
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

/** A filesystem whose members are merged, or are to be. */
export interface NodeMerge {
  readonly handle: string;
  readonly node: string | undefined;
  /** Who waits for it. */
  readonly pod: string | undefined;
}

/** One of a node at a time, and one for a pod, which may be helped on several nodes if it has none. */
export function isInTheWay(other: NodeMerge, wanted: NodeMerge): boolean {
  if (other.handle === wanted.handle) return false;
  return other.node === wanted.node || (wanted.pod !== undefined && other.pod === wanted.pod);
}

function isStepOf(decidedAt: string, wantedAt: string): boolean {
  return Date.parse(decidedAt) === Date.parse(wantedAt) || isStepBefore(decidedAt, wantedAt);
}
