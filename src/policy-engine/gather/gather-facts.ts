// Joins what the caches and the streams know of one volume into the facts of one decision. It reads caches only, and waits for nothing.

import { type ClaimResize, claimResizeOf, infeasibleMessage } from "../../api/claim-resize.ts";
import { isStepBefore } from "../../api/decision-time.ts";
import type { Filesystem, WantedTarget } from "../../api/filesystem.ts";
import type { FilesystemLayout, LastOperation } from "../../api/filesystem-layout.ts";
import { filesystemSizeBytes } from "../../api/filesystem-size.ts";
import { NO_LABELS } from "../../api/label-selector.ts";
import { RECORDS } from "../../api/names.ts";
import { otherAutoscalerOf } from "../../api/other-autoscalers.ts";
import { objectKey } from "../../kube/object.ts";
import type { PersistentVolumeClaim } from "../../kube/resources.ts";
import type { Instant } from "../../process/clock.ts";
import { parseQuantity } from "../../units/quantity.ts";
import {
  type ClaimFacts,
  claimKey,
  type Facts,
  type FilesystemFacts,
  type LastOperationFacts,
  type PlannedShrink,
  type QuotaFacts,
  type RefusedShrink,
} from "../facts/facts.ts";
import { tightestQuota } from "../sizing/quota.ts";
import type { Caches } from "./caches.ts";
import { datedAtMs, recentChanges } from "./changes.ts";
import { consolidationFacts } from "./consolidation-facts.ts";
import type { NamespacePromises } from "./namespace-promises.ts";
import { endInTime } from "./place-in-time.ts";
import { policyShrinkOf, replacementOf } from "./policy-shrink.ts";
import { raisedRequestBytes } from "./raised-request.ts";
import { storageQuotas } from "./storage-quotas.ts";
import type { PendingTarget, VolumeState } from "./volume-registry.ts";

/** The caches that a decision reads. */
export interface World {
  readonly caches: Pick<Caches, "layouts" | "filesystems" | "claims" | "storageClasses" | "quotas">;
  readonly promises: NamespacePromises;
  /** A configured Prometheus has not answered for several intervals. */
  metricsStale(monotonicMs: number): boolean;
}

export interface Gathered {
  readonly facts: Facts;
  readonly filesystem: Filesystem;
  readonly layout: FilesystemLayout;
}

/** A target that nobody has acted on for this long no longer counts as under way … */
const PENDING_LIMIT_MS = 30_000;
/** … and after this long no longer against the next. */
const IN_VAIN_LIMIT_MS = 600_000;

type ClaimOperations = "mounted" | "operationInProgress" | "lastOperation" | "extendsInVain" | "capacityAtExtendBytes";

/** Undefined while the volume's objects are not all there: there is nothing to decide on, and nobody to tell. */
export function gather(world: World, state: VolumeState, at: Instant): Gathered | undefined {
  const { nowMs, monotonicMs } = at;
  const { caches } = world;
  const layout = caches.layouts.store.get(state.handle);
  const claim = layout && claimFactsOf(caches, layout);
  if (layout === undefined || claim === undefined) return undefined;
  const filesystem = caches.filesystems.store.get(claimKey(claim));
  const resize = layout.spec.backend === "claim" ? resizeOf(caches, claim) : undefined;
  // Its claim tells in one piece what an ordinary claim has and what is still asked for; its layout tells it later.
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
    quota: quotaOf(world, claim, state.handle),
    metricsStale: world.metricsStale(monotonicMs),
    ruleTimers: state.timers,
    changes: recentChanges(state),
  };
  return { facts, filesystem, layout };
}

function quotaOf({ caches, promises }: World, claim: ClaimFacts, handle: string): QuotaFacts | undefined {
  const quotas = storageQuotas(caches, claim.namespace);
  if (quotas.length === 0) return undefined;
  const object = caches.claims.store.get(claimKey(claim));
  const ownBytes = object === undefined ? claim.nominalBytes : requestBytes(object);
  return tightestQuota(
    quotas,
    { storageClassName: claim.storageClassName, requestBytes: ownBytes },
    promises.othersOver(handle),
  );
}

function resizeOf({ claims }: Pick<Caches, "claims">, claim: ClaimFacts): ClaimResize | undefined {
  const object = claims.store.get(claimKey(claim));
  return object && claimResizeOf(object);
}

/** Nobody of ours resizes an ordinary claim: what runs and what has ended stands on the claim itself. */
function claimOperations(
  state: VolumeState,
  { spec }: FilesystemLayout,
  { stage }: ClaimResize,
  monotonicMs: number,
): Pick<FilesystemFacts, ClaimOperations> {
  const { claimGrowth } = state;
  const vain = stage === "None" ? targetInVain(state, monotonicMs) : undefined;
  return {
    // Nobody may speak for one that is attached nowhere.
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

/** The target that was set aside: nobody asks the driver for it. */
function targetInVain({ pending }: VolumeState, monotonicMs: number): PendingTarget | undefined {
  const sinceMs = monotonicMs - (pending?.writtenAtMs ?? Number.NaN);
  return sinceMs >= PENDING_LIMIT_MS && sinceMs < IN_VAIN_LIMIT_MS ? pending : undefined;
}

/** The claim that a layout belongs to. A claim of the same name that was made anew is another claim: undefined. */
export function claimFactsOf(
  caches: Pick<Caches, "claims" | "storageClasses">,
  layout: FilesystemLayout,
): ClaimFacts | undefined {
  const { claimRef } = layout.spec;
  const claim = claimRef && caches.claims.store.get(objectKey(claimRef));
  return claim?.metadata.uid === claimRef?.uid && claim !== undefined ? claimFacts(caches, claim, layout) : undefined;
}

function claimFacts(
  caches: Pick<Caches, "storageClasses">,
  claim: PersistentVolumeClaim,
  layout: FilesystemLayout,
): ClaimFacts {
  const isOrdinary = layout.spec.backend === "claim";
  return {
    namespace: claim.metadata.namespace ?? "",
    name: claim.metadata.name,
    labels: claim.metadata.labels ?? NO_LABELS,
    annotations: claim.metadata.annotations ?? {},
    storageClassName: claim.spec.storageClassName ?? "",
    backend: layout.spec.backend ?? "loop",
    // Of what kubelet mounts for others, nothing but its overhead matters here: that of ext4 is as large as any.
    fsType: layout.spec.fsType ?? (isOrdinary ? "ext4" : "btrfs"),
    volumeMode: layout.spec.volumeMode ?? "Filesystem",
    ...(isOrdinary ? ordinaryWishes(caches, claim, layout) : ownWishes(caches, claim, layout)),
    createdAtMs: Date.parse(claim.metadata.creationTimestamp ?? ""),
    deleting: claim.metadata.deletionTimestamp !== undefined,
  };
}

/** What people and classes ask for, and what stands against it. */
type ClaimWishes = Pick<
  ClaimFacts,
  "nominalBytes" | "initialSizeBytes" | "classMaxBytes" | "raisedRequestBytes" | "otherAutoscaler" | "infeasibleResize"
>;

function ownWishes(
  caches: Pick<Caches, "storageClasses">,
  claim: PersistentVolumeClaim,
  layout: FilesystemLayout,
): ClaimWishes {
  const parameters = caches.storageClasses.store.get(claim.spec.storageClassName ?? "")?.parameters ?? {};
  const nominalBytes = requestBytes(claim);
  return {
    nominalBytes,
    initialSizeBytes: quantityParameter(parameters["initialSize"]) ?? nominalBytes,
    classMaxBytes: quantityParameter(parameters["maxSize"]),
    raisedRequestBytes: raisedRequestBytes(claim, layout),
    otherAutoscaler: undefined,
    infeasibleResize: undefined,
  };
}

// An ordinary claim's request is what we raise: its nominal size is the one that its user asked for. What he raises, its own driver
// carries out.
function ordinaryWishes(
  caches: Pick<Caches, "storageClasses">,
  claim: PersistentVolumeClaim,
  layout: FilesystemLayout,
): ClaimWishes {
  const nominalBytes = quantityParameter(layout.metadata.annotations?.[RECORDS.requestedSize]) ?? requestBytes(claim);
  return {
    nominalBytes,
    initialSizeBytes: nominalBytes,
    classMaxBytes: undefined,
    raisedRequestBytes: undefined,
    otherAutoscaler: otherAutoscalerOf(claim, caches.storageClasses.store.get(claim.spec.storageClassName ?? "")),
    infeasibleResize: infeasibleResize(claim, layout),
  };
}

function requestBytes({ spec }: PersistentVolumeClaim): number {
  return parseQuantity(spec.resources?.requests?.["storage"] ?? "0");
}

function infeasibleResize(claim: PersistentVolumeClaim, { spec }: FilesystemLayout): string | undefined {
  const resize = claimResizeOf(claim);
  if (resize?.stage !== "Infeasible") return undefined;
  return infeasibleMessage(resize, spec.members?.[0]?.source.claim?.driver);
}

// A class whose parameter cannot be read never made a volume: CreateVolume refuses it by name.
function quantityParameter(text: string | undefined): number | undefined {
  try {
    return text === undefined ? undefined : parseQuantity(text);
  } catch {
    return undefined;
  }
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
  return {
    sizeBytes,
    mounted: status?.mounted ?? state.reading !== undefined,
    readOnly: readOnlyOf(layout),
    reading: state.reading,
    growthBytesPerSecond: state.growthBytesPerSecond,
    peakWriteBytesPerSecond: state.peakWriteBytesPerSecond,
    // An extend that was asked for while a shrink runs is under way, although the layout still tells of the shrink.
    operationInProgress: pending?.kind === "Extend" ? "Extend" : (status?.operation?.kind ?? operationOf(pending)),
    policyShrink: policyShrinkOf(filesystem, layout, pending),
    replacement: replacementOf(filesystem, layout, at.nowMs),
    lastOperation: status?.lastOperation && lastOperationFacts(status.lastOperation, filesystem, state, at),
    extendsInVain: status?.lastOperation?.outcome === "Failed" ? 1 : 0,
    shrinksInVain: state.shrinksInVain,
    capacityAtExtendBytes: undefined,
    history: state.history,
    shrinksUnmounted: status?.shrinksUnmounted === true,
    immovable: status?.immovable,
    plannedShrink: plannedShrinkOf(filesystem, layout, pending),
    refusedShrink: refusedShrinkOf(filesystem, layout),
  };
}

/** Its node begins nothing on it: what is asked for meanwhile would only lapse, and be asked for again. */
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
  { lastEnd, reading, stamp }: VolumeState,
  at: Instant,
): LastOperationFacts {
  const { endedAt } = last;
  const end = lastEnd?.endedAt === endedAt ? lastEnd : { endedAt, seenAtMs: datedAtMs(Date.parse(endedAt), at) };
  return {
    kind: last.kind,
    outcome: last.outcome,
    endedAtMs: endInTime(end, reading && { sampledAtMs: reading.sampledAtMs, stamp }),
    reason: last.reason,
    message: last.message,
    floorBytes: last.floor === undefined || !isOfFloor(last, target) ? undefined : parseQuantity(last.floor),
    usedBytes: last.used === undefined ? undefined : parseQuantity(last.used),
    askedBytes: parseQuantity(last.to),
    reachedBytes: parseQuantity(last.reached),
  };
}
