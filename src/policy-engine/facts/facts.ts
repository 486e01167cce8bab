// Everything a decision may depend on, both clocks included. Plain values only: the process that gathers them reads clocks, caches and
// streams; what decides reads nothing but this. The wall clock is for what people have written: windows, `now`, a claim's age. All else
// goes by the monotonic clock, on which no clock that is set makes anything old, new or of the future.
import type { Backend, FsType, OPERATION_KINDS, OPERATION_OUTCOMES, VolumeMode } from "../../api/filesystem-layout.ts";
import type { RuleTimers } from "../rules/rule-timers.ts";
import type { UsageWindows } from "./usage-history.ts";

export interface Facts {
  /** Wall-clock time, Unix milliseconds. */
  readonly nowMs: number;
  /** The same instant on the engine's monotonic clock: what the times of readings, operations, changes and timers are compared with. */
  readonly monotonicMs: number;
  readonly claim: ClaimFacts;
  readonly filesystem: FilesystemFacts;
  /** Where its members come from; undefined: not known, which is never read as "nothing free". */
  readonly node: NodeFacts | undefined;
  /** What a budget has to bear in the claim's namespace: this filesystem's size, and all that is promised to the others. */
  readonly namespaceBytes: number;
  /** The ResourceQuota that lets this filesystem have the least; absent: none limits it. */
  readonly quota?: QuotaFacts | undefined;
  /** A configured Prometheus gave no fresh answer. False where none is configured. */
  readonly metricsStale: boolean;
  /** Since when each rule has held: kept by the process from one decision to the next. */
  readonly ruleTimers: RuleTimers;
  readonly changes: RecentChanges;
}

export interface QuotaFacts {
  readonly name: string;
  /** What it limits: "requests.storage", or the same of the claim's class. */
  readonly key: string;
  readonly limitBytes: number;
  /** What it leaves to this filesystem in all. */
  readonly bytes: number;
}

export interface ClaimFacts {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly storageClassName: string;
  readonly backend: Backend;
  readonly fsType: FsType;
  /** Block: there is no filesystem, and fsType says nothing. */
  readonly volumeMode: VolumeMode;
  /** The claim's request. */
  readonly nominalBytes: number;
  /** The class' initialSize, else the request: what limits.min defaults to. */
  readonly initialSizeBytes: number;
  /** The class' maxSize, if it has one. */
  readonly classMaxBytes: number | undefined;
  /** The request while it is raised over what was provided so far, or was asked for in vain; undefined when nothing is asked for. */
  readonly raisedRequestBytes: number | undefined;
  readonly createdAtMs: number;
  readonly deleting: boolean;
  /** Of an ordinary claim: the annotation, its own or its class', by which another autoscaler acts on it. */
  readonly otherAutoscaler: string | undefined;
  /** Of an ordinary claim: what its driver says of a resize that it cannot carry out. */
  readonly infeasibleResize: string | undefined;
}

export interface FilesystemFacts {
  /** Sum of the member devices' sizes. */
  readonly sizeBytes: number;
  readonly mounted: boolean;
  /** Why it takes no writes, in its node's words; absent: it does. */
  readonly readOnly?: string | undefined;
  /** The newest reading; undefined: there is none. */
  readonly reading: Reading | undefined;
  /** Over the last seconds; negative when usage falls, undefined until two readings exist. */
  readonly growthBytesPerSecond: number | undefined;
  /** The writer's highest rate of the last 60 s; undefined where only Prometheus sees the volume. */
  readonly peakWriteBytesPerSecond: number | undefined;
  /** The operation that runs on it now. */
  readonly operationInProgress: OperationKind | undefined;
  /** A shrink that a policy has asked for runs, or is about to; "Stopping": it was asked to stop. Absent: none of a policy's. */
  readonly policyShrink?: "Running" | "Stopping" | undefined;
  /** A smaller member is made for the shrink that stands, and takes a larger one's place, in words. Absent: none is, or no more. */
  readonly replacement?: string | undefined;
  readonly lastOperation: LastOperationFacts | undefined;
  /** How many extends in a row came to nothing, the last one included; 0: none did. */
  readonly extendsInVain: number;
  /** How many shrinks in a row failed, or found somebody else at work; absent: none did. */
  readonly shrinksInVain?: number | undefined;
  /** What it showed when the extend was decided that its volume has followed; of ordinary claims only, which others grow. */
  readonly capacityAtExtendBytes: number | undefined;
  readonly history: UsageWindows;
  /** Its node can make it smaller while it is unmounted, so that a crash at any line leaves it whole. */
  readonly shrinksUnmounted: boolean;
  /** Why no data of it is moved between its members, in words; absent: it is, or that is not known. */
  readonly immovable?: string | undefined;
  /** The shrink that waits for the next unmount; it does so until notAfterMs. */
  readonly plannedShrink: PlannedShrink | undefined;
  /** The last target is a shrink that the operator has no members for; absent: it is none, or was carried on. */
  readonly refusedShrink?: RefusedShrink | undefined;
  /** Fewer members are wanted; absent: nobody wants that. */
  readonly consolidation?: ConsolidationFacts | undefined;
}

export interface PlannedShrink {
  readonly sizeBytes: number;
  /** The size that it was decided on. */
  readonly fromBytes: number;
  readonly notAfterMs: number;
}

export interface RefusedShrink {
  readonly sizeBytes: number;
  /** The size that it was decided on. */
  readonly fromBytes: number;
  readonly decidedAtMs: number;
  /** The operator's words. */
  readonly message: string;
}

/** What a filesystem of fewer members would be, for a pod that lacks attach slots. */
export interface ConsolidationFacts {
  readonly members: number;
  /** What it is larger by meanwhile; 0: it has that room already, from one that was not finished. */
  readonly growthBytes: number;
  /** What it has afterwards. */
  readonly sizeBytes: number;
  /** Who waits for what, in a sentence. */
  readonly because: string;
  /** Why it cannot be had as things are, in words. */
  readonly obstacle?: string | undefined;
  /** It is decided, and not over. */
  readonly underWay: boolean;
}

/** One sample: its figures belong together and are never combined with another sample's. */
export interface Reading {
  /** On the engine's monotonic clock: when it arrived, less how old it was by then. */
  readonly sampledAtMs: number;
  /** How far the clock of its node was ahead of the engine's when it arrived; negative: behind. 0 of Prometheus, which tells ages. */
  readonly aheadMs: number;
  readonly capacityBytes: number;
  readonly availableBytes: number;
  /** capacityBytes − availableBytes. */
  readonly usedBytes: number;
  /** 0: unlimited (btrfs); undefined: not measured. */
  readonly inodesTotal: number | undefined;
  readonly inodesUsed: number | undefined;
  /** Of a btrfs whose data has copies (data-profiles.ts), which capacityBytes is divided by; absent: it has none, or nobody has said. */
  readonly dataProfiles?: number | undefined;
  readonly source: ReadingSource;
  /** How often the source samples: what "stale" and "gap" are measured in. */
  readonly intervalMs: number;
}

export type ReadingSource = "agent" | "prometheus";
export type OperationKind = (typeof OPERATION_KINDS)[number];
export type OperationOutcome = (typeof OPERATION_OUTCOMES)[number];

export interface LastOperationFacts {
  readonly kind: OperationKind;
  readonly outcome: OperationOutcome;
  /** On the engine's monotonic clock; earlier than the newest reading where its node says that the reading came after it. */
  readonly endedAtMs: number;
  readonly reason: string | undefined;
  /** In a sentence with figures. */
  readonly message?: string | undefined;
  /** The smallest size the filesystem called safe, where the operation ended as FloorReached, or took back what did. */
  readonly floorBytes: number | undefined;
  /** What was in use then; absent where the agent did not report it. */
  readonly usedBytes?: number | undefined;
  /** The size that was asked for, and the one at its end. */
  readonly askedBytes?: number | undefined;
  readonly reachedBytes?: number | undefined;
}

export interface NodeFacts {
  readonly name: string;
  /** Free bytes where the members come from. */
  readonly freeBytes: number;
  /** 0..1 */
  readonly ioUtilizationRatio: number;
}

/** When sizes were changed in the last 24 hours, on the engine's monotonic clock, oldest first: finished, failed and emergency operations alike. */
export interface RecentChanges {
  readonly extendsAtMs: readonly number[];
  readonly shrinksAtMs: readonly number[];
}

/** For the many volumes that were never changed: shared, so that they cost nothing. */
export const NO_CHANGES: RecentChanges = { extendsAtMs: [], shrinksAtMs: [] };

/** "namespace/name" of the claim, as messages name it. */
export function claimKey(claim: ClaimFacts): string {
  return `${claim.namespace}/${claim.name}`;
}
