// Joins what the caches and the streams know of one volume into the facts of one decision. It reads caches only, and waits for nothing.

import { highestEpoch, isStepBefore, stepBefore } from "../../contracts/formulas/decision-order.ts";
import { filesystemSizeBytes } from "../../contracts/formulas/filesystem-size.ts";
import { CONSOLIDATION_LIMIT_MS, type Filesystem, type WantedTarget } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout, FsType, LastOperation } from "../../contracts/kinds/filesystem-layout.ts";
import { isEmergencySince } from "../../contracts/kinds/grant.ts";
import { type ClaimResize, claimResizeOf } from "../../contracts/ordinary-claim.ts";
import { shortened } from "../../contracts/printable.ts";
import { formatBytes, GIB, parseQuantity, readQuantity } from "../../contracts/quantities/quantity.ts";
import type { Instant } from "../../platform/process/clock.ts";
import {
  type ClaimFacts,
  type ConsolidationFacts,
  claimKey,
  type Facts,
  type FilesystemFacts,
  type LastOperationFacts,
  type PlannedShrink,
  type RefusedShrink,
} from "../facts/facts.ts";
import type { ApprovalBook } from "./approval-book.ts";
import type { Caches } from "./caches.ts";
import { claimFactsOf, quotaFactsOf } from "./claim-facts.ts";
import { datedAtMs, endInTime, flapsOf, recentChanges } from "./operation-times.ts";
import { policyShrinkOf, replacementOf, shrinkUnderWay } from "./policy-shrink.ts";
import type { PromisesLedger } from "./promises-draft.ts";
import type { RatesDraft } from "./rates/rates-draft.ts";
import type { PendingTarget, VolumeState } from "./volume-registry.ts";

/** The caches that a decision reads. */
export interface World {
  readonly caches: Pick<Caches, "layouts" | "filesystems" | "claims" | "storageClasses" | "quotas">;
  readonly promises: Pick<PromisesLedger, "othersBytes" | "othersOver">;
  readonly rates: Pick<RatesDraft, "of">;
  readonly approvals: Pick<ApprovalBook, "forClaim">;
  readonly evaluationIntervalMs: number;
  /** A configured Prometheus has not answered for several intervals. */
  metricsStale(monotonicMs: number): boolean;
}

export interface Gathered {
  readonly facts: Facts;
  readonly filesystem: Filesystem;
  readonly layout: FilesystemLayout;
}

/** A target without action for this long no longer counts as under way … */
const PENDING_LIMIT_MS = 30_000;
/** … and after this long no longer against the next. */
const IN_VAIN_LIMIT_MS = 600_000;

type ClaimOperations = "mounted" | "operationInProgress" | "lastOperation" | "extendsInVain" | "capacityAtExtendBytes";

/** Undefined while some of the volume's objects are missing: there is nothing to decide on, and no object to report on. */
export function gather(world: World, state: VolumeState, at: Instant): Gathered | undefined {
  const { nowMs, monotonicMs } = at;
  const { caches } = world;
  const layout = caches.layouts.store.get(state.handle);
  const claim = layout && claimFactsOf(caches, layout);
  if (layout === undefined || claim === undefined) return undefined;
  const filesystem = caches.filesystems.store.get(claimKey(claim));
  const resize = layout.spec.backend === "claim" ? resizeOf(caches, claim) : undefined;
  // The claim of an ordinary volume shows in one piece what it has and what is still asked for; its layout shows it later.
  const sizeBytes = layout.spec.backend === "claim" ? resize?.capacityBytes : filesystemSizeBytes(layout);
  if (filesystem === undefined || sizeBytes === undefined) return undefined;
  const facts: Facts = {
    nowMs,
    monotonicMs,
    claim,
    filesystem: {
      ...filesystemFacts(state, filesystem, layout, sizeBytes, at),
      consolidation: consolidationFacts(filesystem, layout, sizeBytes, nowMs),
      ...(resize === undefined ? {} : claimOperations(state, layout, resize, monotonicMs)),
    },
    node: state.node,
    namespaceBytes: sizeBytes + world.promises.othersBytes(state.handle),
    quota: quotaFactsOf(caches, world.promises, claim, state.handle),
    approvals: world.approvals.forClaim(claim),
    metricsStale: world.metricsStale(monotonicMs),
    ruleTimers: state.timers,
    evaluationIntervalMs: world.evaluationIntervalMs,
    vainExtends: state.vainExtends,
    changes: recentChanges(state),
    rates: world.rates.of(layout),
    flaps: flapsOf(state),
    missedWindows: state.missedWindows,
  };
  return { facts, filesystem, layout };
}

function resizeOf({ claims }: Pick<Caches, "claims">, claim: ClaimFacts): ClaimResize | undefined {
  const object = claims.store.get(claimKey(claim));
  return object && claimResizeOf(object);
}

/** Tidemark does not resize an ordinary claim: what runs and what has ended stands on the claim itself. */
function claimOperations(
  state: VolumeState,
  { spec }: FilesystemLayout,
  { stage }: ClaimResize,
  monotonicMs: number,
): Pick<FilesystemFacts, ClaimOperations> {
  const { claimGrowth } = state;
  const vain = stage === "None" ? targetInVain(state, monotonicMs) : undefined;
  return {
    // No agent may speak for one that is attached nowhere.
    mounted: spec.nodeName !== undefined && state.reading !== undefined,
    capacityAtExtendBytes: claimGrowth?.capacityBeforeBytes,
    operationInProgress: stage === "None" ? pendingTarget(state, monotonicMs)?.kind : "Extend",
    lastOperation:
      vain === undefined
        ? endedExtend("Succeeded", claimGrowth?.grownAtMs)
        : endedExtend("Failed", vain.writtenAtMs + PENDING_LIMIT_MS),
    extendsInVain: vain?.attempt ?? 0,
  };
}

function endedExtend(outcome: "Succeeded" | "Failed", endedAtMs: number | undefined): LastOperationFacts | undefined {
  const reason = outcome === "Failed" ? "ResizeFailed" : undefined;
  return endedAtMs === undefined ? undefined : { kind: "Extend", outcome, endedAtMs, reason, floorBytes: undefined };
}

/** The target that was set aside: the driver is not asked for it. */
function targetInVain({ pending }: VolumeState, monotonicMs: number): PendingTarget | undefined {
  const sinceMs = monotonicMs - (pending?.writtenAtMs ?? Number.NaN);
  return sinceMs >= PENDING_LIMIT_MS && sinceMs < IN_VAIN_LIMIT_MS ? pending : undefined;
}

function filesystemFacts(
  state: VolumeState,
  filesystem: Filesystem,
  layout: FilesystemLayout,
  sizeBytes: number,
  at: Instant,
): FilesystemFacts {
  const { status } = layout;
  const pending = pendingTarget(state, at.monotonicMs);
  const policyShrink = policyShrinkOf(filesystem, layout, pending);
  return {
    sizeBytes,
    mounted: status?.mounted ?? state.reading !== undefined,
    readOnly: readOnlyOf(layout),
    reading: state.reading,
    // An extend that was asked for while a shrink runs is under way, although the layout still shows the shrink.
    operationInProgress: pending?.kind === "Extend" ? "Extend" : (status?.operation?.kind ?? operationOf(pending)),
    policyShrink,
    shrinkUnderWay: policyShrink === "Running" ? shrinkUnderWay(filesystem) : undefined,
    replacement: replacementOf(filesystem, layout, at.nowMs),
    lastOperation: status?.lastOperation && lastOperationFacts(status.lastOperation, filesystem, state, at),
    extendsInVain: status?.lastOperation?.outcome === "Failed" ? 1 : 0,
    shrinksInVain: state.shrinksInVain,
    inodesPerByte: inodesPerByteOf(state, layout.spec.fsType),
    capacityAtExtendBytes: undefined,
    history: state.history,
    growth: state.growth,
    shrinksUnmounted: status?.shrinksUnmounted === true,
    immovable: status?.immovable,
    plannedShrink: plannedShrinkOf(filesystem, layout, pending),
    refusedShrink: refusedShrinkOf(filesystem, layout),
  };
}

/** ext4 brings its inodes by the block group, of 128 MiB: less growth says nothing of them. */
const INODES_GROWTH_MIN_BYTES = GIB;

/** Of the last extend, once a reading shows it. Only ext4 has a number of inodes that does not follow what is free. */
function inodesPerByteOf(
  { beforeExtend: before, reading }: VolumeState,
  fsType: FsType | undefined,
): number | undefined {
  if (fsType !== "ext4") return undefined;
  if (before?.inodesTotal === undefined || reading?.inodesTotal === undefined) return undefined;
  const grownBytes = reading.capacityBytes - before.capacityBytes;
  return grownBytes >= INODES_GROWTH_MIN_BYTES
    ? Math.max(0, reading.inodesTotal - before.inodesTotal) / grownBytes
    : undefined;
}

/** Its node starts nothing on it: a target would only lapse, and be asked for again. */
function readOnlyOf({ status }: FilesystemLayout): string | undefined {
  if (status?.mounted !== true) return undefined;
  const said = status.conditions?.find(
    ({ type, reason }) => (type === "Ready" || type === "Stalled") && reason === "ReadOnly",
  );
  return said?.message;
}

/** A shrink that waits for an unmount keeps nothing else from being decided. */
function operationOf(pending: PendingTarget | undefined): PendingTarget["kind"] | undefined {
  return pending?.planned === undefined ? pending?.kind : undefined;
}

/** As this process has written it, or as it stands; one that has ended waits no longer. */
function plannedShrinkOf(
  { spec: { target } }: Filesystem,
  { status }: FilesystemLayout,
  pending: PendingTarget | undefined,
): PlannedShrink | undefined {
  if (pending !== undefined) return pending.planned;
  if (target?.notAfter === undefined) return undefined;
  const ended = Date.parse(status?.lastOperation?.decidedAt ?? "");
  if (Date.parse(target.decidedAt) <= ended) return undefined;
  return {
    sizeBytes: parseQuantity(target.size),
    fromBytes: parseQuantity(target.from),
    notAfterMs: Date.parse(target.notAfter),
  };
}

/** The operator says so of the target that stands, which no layout has. */
function refusedShrinkOf(
  { spec: { target }, status }: Filesystem,
  layout: FilesystemLayout,
): RefusedShrink | undefined {
  if (target === undefined || target.members !== undefined) return undefined;
  const decidedAtMs = Date.parse(target.decidedAt);
  const isCarried = !(decidedAtMs > Date.parse(layout.spec.target?.decidedAt ?? new Date(0).toISOString()));
  const said = status?.conditions?.find(
    ({ type, reason }) => type === "Reconciling" && reason === "ShrinkFloorReached",
  );
  if (isCarried || said === undefined) return undefined;
  const { size, from } = target;
  return { sizeBytes: parseQuantity(size), fromBytes: parseQuantity(from), decidedAtMs, message: said.message };
}

/** The target that was written and is not seen to be carried out yet. */
export function pendingTarget({ pending }: VolumeState, monotonicMs: number): PendingTarget | undefined {
  return pending !== undefined && monotonicMs - pending.writtenAtMs < PENDING_LIMIT_MS ? pending : undefined;
}

/** A shrink that succeeded has a floor where the operator has taken a replacement back by it: right after what was decided here. */
function isOfFloor({ outcome, decidedAt }: LastOperation, target: WantedTarget | undefined): boolean {
  if (outcome !== "Succeeded") return true;
  return target !== undefined && decidedAt !== undefined && isStepBefore(target.decidedAt, decidedAt);
}

function lastOperationFacts(
  last: LastOperation,
  { spec: { target } }: Filesystem,
  { lastEnd, reading }: VolumeState,
  at: Instant,
): LastOperationFacts {
  const { endedAt } = last;
  const end = lastEnd?.endedAt === endedAt ? lastEnd : { endedAt, seenAtMs: datedAtMs(Date.parse(endedAt), at) };
  return {
    kind: last.kind,
    outcome: last.outcome,
    endedAtMs: endInTime(end, reading),
    reason: last.reason,
    message: last.message,
    floorBytes: last.floor === undefined || !isOfFloor(last, target) ? undefined : parseQuantity(last.floor),
    usedBytes: last.used === undefined ? undefined : parseQuantity(last.used),
    askedBytes: parseQuantity(last.to),
    reachedBytes: parseQuantity(last.reached),
  };
}

// What Filesystem and layout say of merging a filesystem's members: the operator wants it for a pod, or one was decided and is not over.
// One that ended before its last step stays wanted, even without that pod: until then the filesystem is larger than it was. Pure.

export function consolidationFacts(
  filesystem: Filesystem,
  layout: FilesystemLayout,
  sizeBytes: number,
  nowMs: number,
): ConsolidationFacts | undefined {
  if (layout.spec.backend !== "span") return undefined;
  return unfinished(filesystem.spec.target, layout, sizeBytes, nowMs) ?? wantedByPod(filesystem, sizeBytes);
}

/** Whose slots and on which node; all of it stands next to the plan, in status.consolidation. */
const BECAUSE_CHARACTERS = 80;

function wantedByPod({ status }: Filesystem, sizeBytes: number): ConsolidationFacts | undefined {
  const need = status?.consolidation;
  const growthBytes = readQuantity(need?.growth);
  if (need === undefined || growthBytes === undefined) return undefined;
  const { members, message, obstacle } = need;
  return {
    members,
    growthBytes,
    sizeBytes,
    because: shortened(message, BECAUSE_CHARACTERS),
    obstacle,
    underWay: false,
  };
}

function unfinished(
  target: WantedTarget | undefined,
  layout: FilesystemLayout,
  presentBytes: number,
  nowMs: number,
): ConsolidationFacts | undefined {
  if (target?.members === undefined || isOvertaken(target, layout, presentBytes)) return undefined;
  const { members, decidedAt } = target;
  const wantedBytes = parseQuantity(target.size);
  // What a deposed leader decided is not carried on once its node has heard of the present one, by its grant for one.
  const isDeposed = target.epoch < highestEpoch(layout);
  const isOver =
    isDeposed || hasEnded(target, layout) || hasFailedFirst(target, layout) || isGivenUp(target, layout, presentBytes);
  const underWay = !isOver && Math.abs(nowMs - Date.parse(decidedAt)) < CONSOLIDATION_LIMIT_MS;
  if (!underWay && wantedBytes >= presentBytes) return undefined;
  const because = `merging its members into ${members} is not over: it has ${formatBytes(presentBytes)}, and is to have ${formatBytes(wantedBytes)}`;
  return { members, growthBytes: 0, sizeBytes: wantedBytes, because, underWay };
}

/** Carried out, given up, or with nothing left to do. */
function hasEnded({ decidedAt }: WantedTarget, { spec, status }: FilesystemLayout): boolean {
  const isCarried = spec.target?.decidedAt === decidedAt;
  return status?.lastOperation?.decidedAt === decidedAt || (isCarried && spec.target?.size === spec.target?.from);
}

/** The extend that makes room for what leaves. */
function hasFailedFirst({ decidedAt }: WantedTarget, { status }: FilesystemLayout): boolean {
  const last = status?.lastOperation;
  return last?.decidedAt !== undefined && isStepBefore(last.decidedAt, decidedAt) && last.outcome !== "Succeeded";
}

/**
 * The operator begins none that was decided on another size than the filesystem has: an extend that the former leader had decided, for one,
 * ended right after.
 */
function isGivenUp(
  { decidedAt, from }: WantedTarget,
  { spec, status }: FilesystemLayout,
  presentBytes: number,
): boolean {
  if (status?.operation || presentBytes === parseQuantity(from)) return false;
  const steps = [decidedAt, stepBefore(decidedAt)];
  const done = [spec.target?.decidedAt, status?.lastOperation?.decidedAt];
  const isBegun = done.some((at) => at !== undefined && steps.includes(at));
  return !isBegun && spec.members?.every(({ replaces }) => replaces?.decidedAt !== decidedAt) === true;
}

/**
 * A raised request or an emergency has changed the size since: what is there now is what it is to have. Of the size that it was decided on
 * nothing has, whatever the clock of its node was in an emergency before.
 */
function isOvertaken({ decidedAt, from }: WantedTarget, layout: FilesystemLayout, presentBytes: number): boolean {
  const carriedMs = Date.parse(layout.spec.target?.decidedAt ?? "");
  const isEmergency = isEmergencySince(layout, decidedAt) && presentBytes !== parseQuantity(from);
  return isEmergency || carriedMs > Date.parse(decidedAt);
}
