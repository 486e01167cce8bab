// What the engine remembers of each volume between two decisions: readings, history, timers, the target under way. It is
// memory only; all of it is gathered again after a restart, and until it is, nothing shrinks.

import { NO_DATA_PROFILES } from "../../contracts/formulas/data-profiles.ts";
import { filesystemSizeBytes } from "../../contracts/formulas/filesystem-size.ts";
import type { Sample } from "../../contracts/gen/tidemark/samples/v1/samples.ts";
import type { ScalingStatus } from "../../contracts/kinds/filesystem.ts";
import type { FilesystemLayout, LastOperation, OperationKind } from "../../contracts/kinds/filesystem-layout.ts";
import { readQuantity } from "../../contracts/quantities/quantity.ts";
import { readSample } from "../../contracts/reading.ts";
import type { Instant } from "../../platform/process/clock.ts";
import type { Plan } from "../decide/plan.ts";
import {
  type MissedWindows,
  NO_RULE_TIMERS,
  NO_VAIN_EXTENDS,
  type NodeFacts,
  type PlannedShrink,
  type ReceivedReading,
  type RuleTimers,
  type VainExtends,
} from "../facts/facts.ts";
import type { GrowthHistory } from "../facts/growth-history.ts";
import { UsageHistory } from "../facts/usage-history.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import {
  type Change,
  type Changes,
  datedAtMs,
  FLAPS_REMEMBERED_MS,
  noteChanges,
  noteEmergency,
  type SeenEnd,
} from "./operation-times.ts";
import type { PrometheusReading } from "./prometheus/prometheus.ts";
import type { PromisesLedger } from "./promises-draft.ts";

/** How often an agent sends at least one sample of each filesystem. */
const AGENT_INTERVAL_MS = 1000;

export interface PendingTarget {
  readonly kind: OperationKind;
  readonly sizeBytes: number;
  /** What it may have in between; 0: nothing more than it has. */
  readonly mostBytes: number;
  readonly decidedAt: string;
  /** On the monotonic clock, as all times of this file except dates of the API server. */
  readonly writtenAtMs: number;
  /** What the filesystem showed when it was decided. */
  readonly capacityBytes: number | undefined;
  /** Of a shrink that waits for an unmount. */
  readonly planned?: PlannedShrink | undefined;
  /** Which one it is since the last that was carried out: 1 is the first. */
  readonly attempt: number;
}

/** What the agent was last asked to look out for, and on which ground. */
export interface Guided {
  readonly usedBytes: number;
  readonly policy: CompiledPolicy | undefined;
  readonly sizeBytes: number;
  readonly atMs: number;
}

export interface ReportedPlan {
  readonly plan: Plan;
  readonly atMs: number;
  readonly filesystemUID: string | undefined;
}

/** What is known of an ordinary claim's size; its operations have no report. */
export interface ClaimGrowth {
  /** As the claim last said. */
  readonly sizeBytes: number;
  /** When it was first seen to be larger than before; undefined: it was not, since this process began. */
  readonly grownAtMs: number | undefined;
  /** What its filesystem showed when that was decided; undefined: it was not our target that it followed. */
  readonly capacityBeforeBytes: number | undefined;
}

export interface Run {
  readonly sinceMs: number;
  /** Infinity while it runs. */
  readonly untilMs: number;
}

/** The last decision, as long as another would bring nothing new. */
export interface Standing {
  /** Nothing has changed that it rests on. `promises`: with what was decided just before. */
  holds(state: VolumeState, at: Instant, promises: Pick<PromisesLedger, "othersBytes" | "othersOver">): boolean;
}

export interface VolumeState extends Changes {
  readonly handle: string;
  claimGrowth: ClaimGrowth | undefined;
  readonly history: UsageHistory;
  /** Undefined while its policy reads none. */
  growth: GrowthHistory | undefined;
  reading: ReceivedReading | undefined;
  node: NodeFacts | undefined;
  timers: RuleTimers;
  vainExtends: VainExtends;
  /** What it showed when the last extend by this process was written; its inodes may have grown with it, or not. */
  beforeExtend: Pick<ReceivedReading, "capacityBytes" | "inodesTotal"> | undefined;
  /** Its layout was seen before: what ends from now on ends when it is heard. */
  layoutKnown: boolean;
  lastEnd: SeenEnd | undefined;
  /** The operation that runs, or ran last, as its layout shows it. */
  lastRun: Run | undefined;
  /** How many shrinks in a row failed, or found another process at work, since this process began. */
  shrinksInVain: number;
  pending: PendingTarget | undefined;
  /** When a shrink was last asked to stop; a cache may show that later. */
  stopAskedAtMs: number | undefined;
  /** The last report to the API server: reports are written on change only. */
  reported: ReportedPlan | undefined;
  guided: Guided | undefined;
  /** An apply is under way: the next decision waits for it … */
  applying: boolean;
  /** … and is made right after it. */
  askedMeanwhile: boolean;
  /** A report that came too early is made when this fires. */
  reportTimer: NodeJS.Timeout | undefined;
  /** A change that the engine's own rate held is asked for again when this fires. */
  turnTimer: NodeJS.Timeout | undefined;
  /** The last decision, where it changed nothing and waits for no time. */
  standing: Standing | undefined;
}

export interface VolumeRegistry {
  get(handle: string): VolumeState;
  forget(handle: string): void;
  /** Takes one agent sample in. False when it is known: a new stream begins with what the one before it ended with. */
  sampled(nodeName: string, sample: Sample, at: Instant): boolean;
  /** Takes a Prometheus reading in that was asked for at that instant, unless an agent has said something newer. */
  scraped(handle: string, reading: PrometheusReading, intervalMs: number, at: Instant): void;
  /** Notes the operations that the layout says have ended. */
  layoutSeen(layout: FilesystemLayout, at: Instant): void;
  /** Notes the size that an ordinary claim says it has. */
  claimSeen(handle: string, sizeBytes: number, at: Instant): void;
  /** Takes up the changes that an earlier engine has reported. */
  recall(handle: string, reported: ScalingStatus, at: Instant): void;
}

/** Hears of each change of a size once, when it is first known of. */
export type ChangeHeard = (handle: string, change: Change) => void;

export function createVolumeRegistry(heard: ChangeHeard = () => {}): VolumeRegistry {
  const volumes = new Map<string, VolumeState>();
  const get = (handle: string): VolumeState => {
    const known = volumes.get(handle) ?? newState(handle);
    volumes.set(handle, known);
    return known;
  };
  const note: NoteChange = (state, of, changes, at) => {
    for (const change of noteChanges(state[of], changes, at)) heard(state.handle, change);
  };
  return {
    get,
    forget: (handle) => {
      const state = volumes.get(handle);
      clearTimeout(state?.reportTimer);
      clearTimeout(state?.turnTimer);
      volumes.delete(handle);
    },
    sampled: (nodeName, sample, at) => takeSample(get(sample.volumeHandle), nodeName, sample, at),
    scraped: (handle, reading, intervalMs, at) => takeScrape(get(handle), reading, intervalMs, at),
    layoutSeen: (layout, at) => takeLayout(get(layout.metadata.name), layout, at, note),
    claimSeen: (handle, sizeBytes, at) => takeClaim(get(handle), sizeBytes, at, note),
    recall: (handle, { extendedAt = [], shrunkAt = [], flappedAt = [], peakBeforeShrink, missedWindows }, at) => {
      const state = get(handle);
      state.missedWindows = recalledMisses(missedWindows);
      state.peakBeforeShrinkBytes = readQuantity(peakBeforeShrink) ?? state.peakBeforeShrinkBytes;
      noteChanges(state.flaps, datedChanges(flappedAt, at), at, FLAPS_REMEMBERED_MS);
      note(state, "extends", datedChanges(extendedAt, at), at);
      note(state, "shrinks", datedChanges(shrunkAt, at), at);
    },
  };
}

type NoteChange = (state: VolumeState, of: "extends" | "shrinks", changes: readonly Change[], at: Instant) => void;

function newState(handle: string): VolumeState {
  return {
    handle,
    claimGrowth: undefined,
    history: new UsageHistory(),
    growth: undefined,
    reading: undefined,
    node: undefined,
    timers: NO_RULE_TIMERS,
    vainExtends: NO_VAIN_EXTENDS,
    beforeExtend: undefined,
    extends: [],
    shrinks: [],
    flaps: [],
    peakBeforeShrinkBytes: undefined,
    missedWindows: undefined,
    layoutKnown: false,
    lastEnd: undefined,
    lastRun: undefined,
    shrinksInVain: 0,
    pending: undefined,
    stopAskedAtMs: undefined,
    reported: undefined,
    guided: undefined,
    applying: false,
    askedMeanwhile: false,
    reportTimer: undefined,
    turnTimer: undefined,
    standing: undefined,
  };
}

// A node has one stream, in which the order of arrival is the order of sampling. What its clock says makes no sample new or old.
function takeSample(state: VolumeState, nodeName: string, sample: Sample, { nowMs, monotonicMs }: Instant): boolean {
  const { sampledAtMs, lastOperationEndedAtMs: afterEndMs } = sample;
  const { reading: known, node } = state;
  if (node?.name === nodeName && known?.sampledAtMs === sampledAtMs && known.afterEndMs === afterEndMs) return false;
  const usedBytes = sample.capacityBytes - sample.availableBytes;
  state.reading = {
    ...readSample(sample, monotonicMs),
    usedBytes,
    aheadMs: sampledAtMs - nowMs,
    afterEndMs,
    source: "agent",
    intervalMs: AGENT_INTERVAL_MS,
  };
  state.node = { name: nodeName, freeBytes: sample.nodeFreeBytes, ioUtilizationRatio: sample.ioUtilizationRatio };
  if (sample.operationInProgress) state.history.skip(monotonicMs, AGENT_INTERVAL_MS, monotonicMs);
  else recordUse(state, monotonicMs, usedBytes, AGENT_INTERVAL_MS, monotonicMs);
  return true;
}

// How old a scrape is Prometheus says, by its own clock alone: neither the engine's nor the node's comes into it.
function takeScrape(
  state: VolumeState,
  scraped: PrometheusReading,
  intervalMs: number,
  { monotonicMs }: Instant,
): void {
  const { ageMs, ...figures } = scraped;
  const takenMs = monotonicMs - ageMs;
  const known = state.reading;
  if (known?.source === "prometheus" && known.sampledAtMs === figures.sampledAtMs) return;
  if (known !== undefined && takenMs <= known.takenMs) return;
  const usedBytes = figures.capacityBytes - figures.availableBytes;
  state.reading = {
    ...figures,
    takenMs,
    dataProfiles: NO_DATA_PROFILES,
    growthBytesPerSecond: undefined,
    peakWriteBytesPerSecond: undefined,
    usedBytes,
    aheadMs: 0,
    afterEndMs: undefined,
    source: "prometheus",
    intervalMs,
  };
  if (isDuring(state.lastRun, takenMs)) state.history.skip(takenMs, intervalMs, monotonicMs);
  else recordUse(state, takenMs, usedBytes, intervalMs, monotonicMs);
}

/** What is in use then is not what it shows: a filesystem that gives a device back shows that as used, too. */
function isDuring(run: Run | undefined, takenMs: number): boolean {
  return run !== undefined && takenMs >= run.sinceMs && takenMs <= run.untilMs;
}

function recordUse(
  { history, growth }: VolumeState,
  takenMs: number,
  usedBytes: number,
  intervalMs: number,
  nowMs: number,
): void {
  history.record(takenMs, usedBytes, intervalMs, nowMs);
  growth?.record(takenMs, usedBytes);
}

function takeLayout(state: VolumeState, layout: FilesystemLayout, at: Instant, note: NoteChange): void {
  const last = layout.status?.lastOperation;
  state.lastRun = runOf(state.lastRun, layout, at);
  if (last !== undefined && last.endedAt !== state.lastEnd?.endedAt) takeEnd(state, last, at, note);
  state.layoutKnown = true;
  const { pending } = state;
  // Of an ordinary claim's size its layout shows a change later than the claim.
  if (pending === undefined || layout.spec.backend === "claim") return;
  const reachedBytes = filesystemSizeBytes(layout);
  const ended =
    last?.decidedAt === pending.decidedAt ||
    (pending.kind === "Extend" && reachedBytes !== undefined && reachedBytes >= pending.sizeBytes);
  if (ended) state.pending = undefined;
}

function runOf(before: Run | undefined, { status }: FilesystemLayout, at: Instant): Run | undefined {
  const isRunning = before?.untilMs === Number.POSITIVE_INFINITY;
  if (!status?.operation) return isRunning ? { ...before, untilMs: at.monotonicMs } : before;
  if (isRunning) return before;
  return { sinceMs: datedAtMs(Date.parse(status.operation.startedAt), at), untilMs: Number.POSITIVE_INFINITY };
}

function takeEnd(state: VolumeState, last: LastOperation, at: Instant, note: NoteChange): void {
  const stampMs = Date.parse(last.endedAt);
  const seenAtMs = state.layoutKnown ? at.monotonicMs : datedAtMs(stampMs, at);
  state.lastEnd = { endedAt: last.endedAt, seenAtMs };
  if (last.kind === "Shrink") state.shrinksInVain = isInVain(last) ? state.shrinksInVain + 1 : 0;
  // A shrink that found its floor at once, or was cancelled before its first step, changed nothing.
  if (last.reached === last.from) return;
  const change = { stampMs, atMs: seenAtMs };
  note(state, last.kind === "Extend" ? "extends" : "shrinks", [change], at);
  if (last.kind === "Extend" && last.emergency === true) noteEmergency(state, change, state.reading?.usedBytes, at);
}

function isInVain({ outcome, reason }: LastOperation): boolean {
  return outcome === "Failed" || reason === "FilesystemBusy";
}

function takeClaim(state: VolumeState, sizeBytes: number, at: Instant, note: NoteChange): void {
  const known = state.claimGrowth;
  const hasGrown = known !== undefined && sizeBytes > known.sizeBytes;
  state.claimGrowth = hasGrown
    ? { sizeBytes, grownAtMs: at.monotonicMs, capacityBeforeBytes: state.pending?.capacityBytes }
    : { sizeBytes, grownAtMs: known?.grownAtMs, capacityBeforeBytes: known?.capacityBeforeBytes };
  if (hasGrown) note(state, "extends", [{ stampMs: at.nowMs, atMs: at.monotonicMs }], at);
  if (state.pending !== undefined && sizeBytes >= state.pending.sizeBytes) state.pending = undefined;
}

function recalledMisses(said: ScalingStatus["missedWindows"]): MissedWindows | undefined {
  const sizeBytes = readQuantity(said?.size);
  const usedBytes = readQuantity(said?.used);
  if (said === undefined || sizeBytes === undefined || usedBytes === undefined) return undefined;
  const { decidedAt, policy, policyGeneration } = said;
  return { decidedAt, sizeBytes, usedBytes, policy, policyGeneration };
}

function datedChanges(reported: readonly string[], at: Instant): Change[] {
  return reported.map((time) => {
    const stampMs = Date.parse(time);
    return { stampMs, atMs: datedAtMs(stampMs, at) };
  });
}
