// Which filesystems' members are merged now, and for whom: so that one of a node is at a time, and one for a pod. Every replica follows
// what goes on, by what Filesystem and layout say; what was begun just now only the one knows that has begun it, until its cache shows that.

import { highestEpoch, isStepBefore } from "../../contracts/formulas/decision-order.ts";
import type { Filesystem } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout, LastOperation } from "../../contracts/kinds/filesystem-layout.ts";
import { isEmergencySince } from "../../contracts/kinds/grant.ts";
import type { ReadableStore } from "../../platform/kube/cache/store.ts";
import { isOfSize } from "../decide/layout-facts.ts";
import { isOnlyOrdered } from "../decide/members/decide-consolidation.ts";

export interface MergeTurns {
  /** The layout was seen as it is now. Says whom its merge was for where that has ended by it. `pod`: who waits for it, as far as is known. */
  follow(
    layout: FilesystemLayout,
    filesystem: Filesystem | undefined,
    pod: string | undefined,
  ): { readonly endedFor: string | undefined } | undefined;
  /** The layout is gone. */
  forget(handle: string): void;
  isFree(wanted: NodeMerge, nowMs: number): boolean;
  /** Takes the turn for the write that begins a merge, however long that takes. Returns how the turn ends by it. */
  begin(merge: NodeMerge): (end: TurnEnd, nowMs: number) => void;
  /** The pod that waits for what is merged; undefined: the pod is unknown, or nothing is merged. */
  podOf(handle: string): string | undefined;
}

/**
 * By the layout that was written, the turn is held until the cache shows that. "Perhaps": the write failed, and may have gone through; the
 * cache shows it within some seconds, if at all. "Nothing": no merge was begun, and another filesystem may have the turn at once.
 */
export type TurnEnd = Pick<FilesystemLayout, "metadata"> | "Perhaps" | "Nothing";

/** After a write, also one that failed: by then caches show it, that of filesystems, too, by which a merge is followed. */
const UNCERTAIN_MS = 10_000;
/** No cache is so late; one that has gone back, with an etcd that was restored, may never show it. */
const SHOWN_LIMIT_MS = 300_000;

interface TakenTurn extends NodeMerge {
  /** Undefined while the write is under way, which has limits of its own. */
  readonly isOver?: (nowMs: number, shown: FilesystemLayout | undefined) => boolean;
}

export function createMergeTurns(layouts: ReadableStore<FilesystemLayout>): MergeTurns {
  /** By handle. */
  const begun = new Map<string, TakenTurn>();
  /** Who waits for what is merged now, by handle. */
  const merging = new Map<string, string | undefined>();

  const underWay = (nowMs: number): NodeMerge[] => {
    for (const [handle, { isOver }] of begun) if (isOver?.(nowMs, layouts.get(handle)) === true) begun.delete(handle);
    return [
      ...begun.values(),
      ...[...merging].map(([handle, pod]) => ({ handle, node: layouts.get(handle)?.spec.nodeName, pod })),
    ];
  };
  return {
    follow: (layout, filesystem, pod) => {
      const handle = layout.metadata.name;
      const wasMerging = merging.has(handle);
      if (isMerging(layout, filesystem)) {
        if (!wasMerging) merging.set(handle, pod);
        return undefined;
      }
      const endedFor = merging.get(handle);
      merging.delete(handle);
      return wasMerging ? { endedFor } : undefined;
    },
    forget: (handle) => void merging.delete(handle),
    isFree: (wanted, nowMs) => !underWay(nowMs).some((one) => isInTheWay(one, wanted)),
    begin: (merge) => {
      const before = begun.get(merge.handle);
      begun.set(merge.handle, merge);
      return (end, nowMs) => {
        if (end !== "Nothing") begun.set(merge.handle, { ...merge, isOver: endOfTurn(end, nowMs) });
        else if (before === undefined) begun.delete(merge.handle);
        else begun.set(merge.handle, before);
      };
    },
    podOf: (handle) => merging.get(handle),
  };
}

function endOfTurn(end: Exclude<TurnEnd, "Nothing">, endedMs: number): NonNullable<TakenTurn["isOver"]> {
  if (end === "Perhaps") return (nowMs) => nowMs - endedMs >= UNCERTAIN_MS;
  const { uid, generation = 0 } = end.metadata;
  return (nowMs, shown) => {
    const isShown = shown?.metadata.uid !== uid || (shown?.metadata.generation ?? 0) >= generation;
    return nowMs - endedMs >= (isShown ? UNCERTAIN_MS : SHOWN_LIMIT_MS);
  };
}

/**
 * Decided, and begun: a new member is made for it, or the layout has the target, or the one that comes a moment before it, and it has
 * not ended.
 */
export function isMerging(layout: FilesystemLayout, filesystem: Filesystem | undefined): boolean {
  const wanted = filesystem?.spec.target;
  if (wanted?.members === undefined || outcomeOf(layout, filesystem) !== undefined) return false;
  // No process carries on a deposed leader's target; what its node has started goes on.
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
interface NodeMerge {
  readonly handle: string;
  readonly node: string | undefined;
  /** Who waits for it. */
  readonly pod: string | undefined;
}

/** One of a node at a time, and one for a pod, which may be helped on several nodes if it has none. */
function isInTheWay(other: NodeMerge, wanted: NodeMerge): boolean {
  if (other.handle === wanted.handle) return false;
  return other.node === wanted.node || (wanted.pod !== undefined && other.pod === wanted.pod);
}

function isStepOf(decidedAt: string, wantedAt: string): boolean {
  return Date.parse(decidedAt) === Date.parse(wantedAt) || isStepBefore(decidedAt, wantedAt);
}
