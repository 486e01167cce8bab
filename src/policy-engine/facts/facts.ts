// Everything a decision may depend on, both clocks included. Plain values only: the process that gathers them reads clocks, caches and
// streams; what decides reads nothing but this. The wall clock is for what people have written: windows, `now`, a claim's age. All else
// goes by the monotonic clock, on which no clock that is set makes anything old, new or of the future.
import type {
  Backend,
  FsType,
  OPERATION_OUTCOMES,
  OperationKind,
  VolumeMode,
} from "../../contracts/kinds/filesystem-layout.ts";
import type { SampledReading } from "../../contracts/reading.ts";
import type { Direction, VainExtend } from "../decide/plan.ts";
import type { Approval } from "../policies/approvals.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";

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
  /** Those that name the claim, whether they are over or not; absent: none does. */
  readonly approvals?: readonly Approval[] | undefined;
  /** A configured Prometheus gave no fresh answer. False where none is configured. */
  readonly metricsStale: boolean;
  /** Since when each rule has held: the process carries it from one decision to the next. */
  readonly ruleTimers: RuleTimers;
  /** The slow path's: a rule that is asked more seldom than three of them is paused in between. */
  readonly evaluationIntervalMs: number;
  readonly vainExtends: VainExtends;
  readonly changes: RecentChanges;
  /** What ceilings on rates count of other volumes, too; absent: nothing is counted. */
  readonly rates?: RateFacts | undefined;
  /** Absent: it has neither shrunk nor flapped. */
  readonly flaps?: Flaps | undefined;
  /** Absent: its last shrink was not stopped by the end of a window. */
  readonly missedWindows?: MissedWindows | undefined;
}

/** What says whether an extend takes back a shrink, and how often one did: see decide/flaps.ts. */
export interface Flaps {
  /** When one did in the last 14 days, on the engine's monotonic clock, oldest first. */
  readonly atMs: readonly number[];
  /** The most that was used in the day before the last shrink was decided; undefined: that is not known. */
  readonly peakBeforeShrinkBytes: number | undefined;
}

/** Shrinks in a row, all decided on the same ground, that their windows ended before a first step: see missed-windows.ts. */
export interface MissedWindows {
  /** When each was decided, which names it; RFC 3339, oldest first. */
  readonly decidedAt: readonly string[];
  /** The size that they were decided on, and what was in use when the last one was stopped. */
  readonly sizeBytes: number;
  readonly usedBytes: number;
  readonly policy: string;
  /** Undefined: the policy has none, as in a test. */
  readonly policyGeneration: number | undefined;
}

/** What decisions ask of the history. */
export interface UsageWindows {
  /** The most bytes used at any time in the last windowMs, or what is missing to say so. */
  maxUsedBytes(windowMs: number, nowMs: number): number | MissingHistory;
  /** The most that was seen in that time, however much of it is missing; 0: nothing was. */
  mostSeenBytes(windowMs: number, nowMs: number): number;
}

/** What decisions ask of growth: not the agent's, of the last seconds, but the trend of a window. */
export interface GrowthWindows {
  /** Bytes a second over the last windowMs; negative while files are deleted. Or what is missing to say so. */
  bytesPerSecond(windowMs: number, nowMs: number): number | MissingHistory;
}

export interface MissingHistory {
  readonly missing: string;
}

/** Counts of changes as they were when this decision was asked for. */
export interface RateFacts {
  /** When the n-th last change in the claim's namespace began, on the engine's monotonic clock; undefined: the last hour has fewer. */
  nthLastInNamespace(n: number): number | undefined;
  readonly cluster: OperationFacts;
  /** Undefined: it is attached to no node. */
  readonly node: OperationFacts | undefined;
}

export interface OperationFacts {
  /** Of other filesystems, those decided and not begun included. */
  readonly running: number;
  /** How many that wait have their turn before this one: it would be a change in that direction. */
  waitingBefore(direction: Direction): number;
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
  /** Of an ordinary claim: the name of its driver. */
  readonly driver?: string | undefined;
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
  readonly reading: ReceivedReading | undefined;
  /** The operation that runs on it now. */
  readonly operationInProgress: OperationKind | undefined;
  /** A shrink that a policy has asked for runs, or is about to; "Stopping": it was asked to stop. Absent: no policy's shrink does. */
  readonly policyShrink?: "Running" | "Stopping" | undefined;
  /** What that shrink is to reach, and the rule that asked for it; absent: that is not known. */
  readonly shrinkUnderWay?: ShrinkUnderWay | undefined;
  /** A smaller member is made for the shrink that stands, and takes a larger one's place, in words. Absent: none is, or no more. */
  readonly replacement?: string | undefined;
  readonly lastOperation: LastOperationFacts | undefined;
  /** How many extends in a row came to nothing, the last one included; of ours, whose layout has the last operation alone, 1 is the most. */
  readonly extendsInVain: number;
  /** How many shrinks in a row failed, or found another process at work; absent: none did. */
  readonly shrinksInVain?: number | undefined;
  /** Inodes that its last extend brought, for each byte of capacity; absent: that is not known. */
  readonly inodesPerByte?: number | undefined;
  /** What it showed when the extend was decided that its volume has followed; of ordinary claims only, which others grow. */
  readonly capacityAtExtendBytes: number | undefined;
  readonly history: UsageWindows;
  /** Absent: its policy has read none so far. */
  readonly growth?: GrowthWindows | undefined;
  /** Its node can make it smaller while it is unmounted, so that a crash at any line leaves it whole. */
  readonly shrinksUnmounted: boolean;
  /** Why no data of it is moved between its members, in words; absent: it is, or that is not known. */
  readonly immovable?: string | undefined;
  /** The shrink that waits for the next unmount; it does so until notAfterMs. */
  readonly plannedShrink: PlannedShrink | undefined;
  /** The last target is a shrink that the operator has no members for; absent: it was another target, or was carried on. */
  readonly refusedShrink?: RefusedShrink | undefined;
  /** Fewer members are wanted; absent: they are not. */
  readonly consolidation?: ConsolidationFacts | undefined;
}

export interface ShrinkUnderWay {
  readonly sizeBytes: number;
  /** Of the policy that decided it; both undefined where the target does not say. */
  readonly policy: string | undefined;
  readonly rule: string | undefined;
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
  /** What it is larger by in between; 0: it has that room already, from one that was not finished. */
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

type NotOfPrometheus = "inodesTotal" | "inodesUsed" | "growthBytesPerSecond" | "peakWriteBytesPerSecond";

/** What Prometheus may not have is undefined then, never 0. */
type MeasuredReading = Omit<SampledReading, NotOfPrometheus> & {
  readonly [Figure in NotOfPrometheus]: SampledReading[Figure] | undefined;
};

/** A reading as the engine has it. `takenMs`: when it arrived, less how old it was by then. */
export interface ReceivedReading extends MeasuredReading {
  /** How far the clock of its node was ahead of the engine's when it arrived; negative: behind. 0 of Prometheus, which gives ages. */
  readonly aheadMs: number;
  /**
   * When the last operation before it ended, as its node dates it; 0: the node names none. Undefined: Prometheus' clock has dated the
   * reading, and only the order of arrival counts.
   */
  readonly afterEndMs: number | undefined;
  /** capacityBytes − availableBytes. */
  readonly usedBytes: number;
  readonly source: ReadingSource;
  /** How often the source samples: what "stale" and "gap" are measured in. */
  readonly intervalMs: number;
}

export type ReadingSource = "agent" | "prometheus";
type OperationOutcome = (typeof OPERATION_OUTCOMES)[number];

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

// How long each rule has held, for the rules' `for`. The process keeps one RuleTimers per volume and advances it after each decision;
// time in which the rules were not evaluated (unmounted, no data, engine down) pauses a timer and does not count.

export interface RuleTimers {
  /** By CompiledRule.timerKey; absent: the rule did not hold when it was last evaluated. */
  readonly heldSinceMs: ReadonlyMap<string, number>;
  readonly evaluatedAtMs: number;
}

export const NO_RULE_TIMERS: RuleTimers = { heldSinceMs: new Map(), evaluatedAtMs: 0 };

/** A longer time without an evaluation is a pause: three of the slow path's intervals, and … */
const PAUSE_INTERVALS = 3;
/** … at least three of its default. */
const PAUSE_MIN_MS = 45_000;

/** The instant at which timers are read. */
export type TimerInstant = Pick<Facts, "monotonicMs" | "evaluationIntervalMs">;

/** How long a rule that holds at that instant has held; 0 when it only begins to. */
export function heldForMs(timers: RuleTimers, timerKey: string, at: TimerInstant): number {
  const sinceMs = timers.heldSinceMs.get(timerKey);
  return sinceMs === undefined ? 0 : Math.max(0, at.monotonicMs - sinceMs - pausedMs(timers, at));
}

/**
 * The timers after a decision. heldRules is Plan.heldRules: bit i says that policy.rules[i] holds; undefined when the decision ended
 * before any rule was evaluated, which leaves the timers as they are.
 */
export function advanceRuleTimers(
  timers: RuleTimers,
  policy: CompiledPolicy,
  heldRules: number | undefined,
  at: TimerInstant,
): RuleTimers {
  if (heldRules === undefined) return timers;
  if (heldRules === 0) return NO_RULE_TIMERS;
  const heldSinceMs = new Map<string, number>();
  policy.rules.forEach((rule, index) => {
    if ((heldRules & (1 << index)) !== 0)
      heldSinceMs.set(rule.timerKey, at.monotonicMs - heldForMs(timers, rule.timerKey, at));
  });
  return { heldSinceMs, evaluatedAtMs: at.monotonicMs };
}

function pausedMs(timers: RuleTimers, { monotonicMs, evaluationIntervalMs }: TimerInstant): number {
  const silentMs = monotonicMs - timers.evaluatedAtMs;
  return silentMs > Math.max(PAUSE_MIN_MS, PAUSE_INTERVALS * evaluationIntervalMs) ? silentMs : 0;
}

/** By CompiledRule.timerKey, of rules that have held ever since. */
export type VainExtends = ReadonlyMap<string, VainExtend>;

/** For the many volumes that have none: shared. */
export const NO_VAIN_EXTENDS: VainExtends = new Map();
