// What the engine remembers of each volume between two decisions: readings, history, timers, the target under way. It is
// memory only; all of it is gathered again after a restart, and until it is, nothing shrinks.
import type { ScalingStatus } from "../../api/filesystem.ts";
import type { FilesystemLayout, LastOperation } from "../../api/filesystem-layout.ts";
import { filesystemSizeBytes } from "../../api/filesystem-size.ts";
import type { Sample } from "../../gen/tidemark/samples/v1/samples.ts";
import type { CompiledPolicy } from "../compiled-policy.ts";
import type { NodeFacts, PlannedShrink, Reading } from "../facts.ts";
import { MAX_AHEAD_MS } from "../measurements.ts";
import type { Plan } from "../plan.ts";
import { NO_RULE_TIMERS, type RuleTimers } from "../rule-timers.ts";
import { UsageHistory } from "../usage-history.ts";
import type { PrometheusReading } from "./prometheus.ts";

/** How often an agent sends at least one sample of each filesystem. */
const AGENT_INTERVAL_MS = 1000;
const DAY_MS = 86_400_000;

export interface PendingTarget {
  readonly kind: "Extend" | "Shrink";
  readonly sizeBytes: number;
  /** What it may have meanwhile; 0: nothing more than it has. */
  readonly mostBytes: number;
  readonly decidedAt: string;
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

/** What is known of an ordinary claim's size; nobody reports its operations. */
export interface ClaimGrowth {
  /** As the claim last said. */
  readonly sizeBytes: number;
  /** When it was first seen to be larger than before; undefined: it was not, since this process began. */
  readonly grownAtMs: number | undefined;
  /** What its filesystem showed when that was decided; undefined: it was not our target that it followed. */
  readonly capacityBeforeBytes: number | undefined;
}

export interface VolumeState {
  readonly handle: string;
  claimGrowth: ClaimGrowth | undefined;
  readonly history: UsageHistory;
  reading: Reading | undefined;
  growthBytesPerSecond: number | undefined;
  peakWriteBytesPerSecond: number | undefined;
  node: NodeFacts | undefined;
  timers: RuleTimers;
  readonly extendsAtMs: number[];
  readonly shrinksAtMs: number[];
  lastOperationSeen: string | undefined;
  /** How many shrinks in a row failed, or found somebody else at work, since this process began. */
  shrinksInVain: number;
  pending: PendingTarget | undefined;
  /** What the API server was last told: reports are written on change only. */
  reported: { readonly plan: Plan; readonly atMs: number; readonly filesystemUID: string | undefined } | undefined;
  guided: Guided | undefined;
  /** An apply is under way: the next decision waits for it … */
  applying: boolean;
  /** … and is made right after it. */
  askedMeanwhile: boolean;
  /** A report that came too early is made when this fires. */
  reportTimer: NodeJS.Timeout | undefined;
}

export interface VolumeRegistry {
  get(handle: string): VolumeState;
  forget(handle: string): void;
  /** Takes one agent sample in. False when it is older than what is known. */
  sampled(nodeName: string, sample: Sample, nowMs: number): boolean;
  /** Takes a Prometheus reading in, unless an agent has said something newer. */
  scraped(handle: string, reading: PrometheusReading, intervalMs: number, nowMs: number): void;
  /** Notes the operations that the layout says have ended. */
  layoutSeen(layout: FilesystemLayout, nowMs: number): void;
  /** Notes the size that an ordinary claim says it has. */
  claimSeen(handle: string, sizeBytes: number, nowMs: number): void;
  /** Takes up the changes that an earlier engine has reported. */
  recall(handle: string, reported: ScalingStatus): void;
}

export function createVolumeRegistry(): VolumeRegistry {
  const volumes = new Map<string, VolumeState>();
  const get = (handle: string): VolumeState => {
    const known = volumes.get(handle) ?? newState(handle);
    volumes.set(handle, known);
    return known;
  };
  return {
    get,
    forget: (handle) => {
      volumes.delete(handle);
    },
    sampled: (nodeName, sample, nowMs) => takeSample(get(sample.volumeHandle), nodeName, sample, nowMs),
    scraped: (handle, reading, intervalMs, nowMs) => takeScrape(get(handle), reading, intervalMs, nowMs),
    layoutSeen: (layout, nowMs) => takeLayout(get(layout.metadata.name), layout, nowMs),
    claimSeen: (handle, sizeBytes, nowMs) => takeClaim(get(handle), sizeBytes, nowMs),
    recall: (handle, { extendedAt = [], shrunkAt = [] }) => {
      const state = get(handle);
      addTimes(state.extendsAtMs, extendedAt);
      addTimes(state.shrinksAtMs, shrunkAt);
    },
  };
}

function newState(handle: string): VolumeState {
  return {
    handle,
    claimGrowth: undefined,
    history: new UsageHistory(),
    reading: undefined,
    growthBytesPerSecond: undefined,
    peakWriteBytesPerSecond: undefined,
    node: undefined,
    timers: NO_RULE_TIMERS,
    extendsAtMs: [],
    shrinksAtMs: [],
    lastOperationSeen: undefined,
    shrinksInVain: 0,
    pending: undefined,
    reported: undefined,
    guided: undefined,
    applying: false,
    askedMeanwhile: false,
    reportTimer: undefined,
  };
}

function takeSample(state: VolumeState, nodeName: string, sample: Sample, nowMs: number): boolean {
  if (isOverdue(sample.sampledAtMs, state.reading, nowMs)) return false;
  const usedBytes = sample.capacityBytes - sample.availableBytes;
  state.reading = {
    sampledAtMs: sample.sampledAtMs,
    capacityBytes: sample.capacityBytes,
    availableBytes: sample.availableBytes,
    usedBytes,
    inodesTotal: sample.inodesTotal,
    inodesUsed: sample.inodesUsed,
    dataProfiles: sample.dataProfiles,
    source: "agent",
    intervalMs: AGENT_INTERVAL_MS,
  };
  state.growthBytesPerSecond = sample.growthBytesPerSecond;
  state.peakWriteBytesPerSecond = sample.peakWriteBytesPerSecond;
  state.node = { name: nodeName, freeBytes: sample.nodeFreeBytes, ioUtilizationRatio: sample.ioUtilizationRatio };
  if (sample.operationInProgress) state.history.skip(sample.sampledAtMs, AGENT_INTERVAL_MS, nowMs);
  else state.history.record(sample.sampledAtMs, usedBytes, AGENT_INTERVAL_MS, nowMs);
  return true;
}

/** Not newer than what is known; a reading from the future, of a clock that was set back since, is known of nobody. */
function isOverdue(sampledAtMs: number, known: Reading | undefined, nowMs: number): boolean {
  return known !== undefined && sampledAtMs <= known.sampledAtMs && known.sampledAtMs <= nowMs + MAX_AHEAD_MS;
}

function takeScrape(state: VolumeState, scraped: PrometheusReading, intervalMs: number, nowMs: number): void {
  if (isOverdue(scraped.sampledAtMs, state.reading, nowMs)) return;
  const usedBytes = scraped.capacityBytes - scraped.availableBytes;
  state.reading = { ...scraped, usedBytes, source: "prometheus", intervalMs };
  state.growthBytesPerSecond = undefined;
  state.peakWriteBytesPerSecond = undefined;
  state.history.record(scraped.sampledAtMs, usedBytes, intervalMs, nowMs);
}

function takeLayout(state: VolumeState, layout: FilesystemLayout, nowMs: number): void {
  const last = layout.status?.lastOperation;
  if (last !== undefined && last.endedAt !== state.lastOperationSeen) {
    state.lastOperationSeen = last.endedAt;
    if (last.kind === "Shrink") state.shrinksInVain = isInVain(last) ? state.shrinksInVain + 1 : 0;
    // A shrink that found its floor at once, or was cancelled before its first step, changed nothing.
    if (last.reached !== last.from)
      noteChange(last.kind === "Extend" ? state.extendsAtMs : state.shrinksAtMs, last.endedAt, nowMs);
  }
  const { pending } = state;
  // Of an ordinary claim's size its layout tells later than the claim.
  if (pending === undefined || layout.spec.backend === "claim") return;
  const reachedBytes = filesystemSizeBytes(layout);
  const ended =
    last?.decidedAt === pending.decidedAt ||
    (pending.kind === "Extend" && reachedBytes !== undefined && reachedBytes >= pending.sizeBytes);
  if (ended) state.pending = undefined;
}

function isInVain({ outcome, reason }: LastOperation): boolean {
  return outcome === "Failed" || reason === "FilesystemBusy";
}

function takeClaim(state: VolumeState, sizeBytes: number, nowMs: number): void {
  const known = state.claimGrowth;
  const hasGrown = known !== undefined && sizeBytes > known.sizeBytes;
  state.claimGrowth = hasGrown
    ? { sizeBytes, grownAtMs: nowMs, capacityBeforeBytes: state.pending?.capacityBytes }
    : { sizeBytes, grownAtMs: known?.grownAtMs, capacityBeforeBytes: known?.capacityBeforeBytes };
  if (hasGrown) noteChange(state.extendsAtMs, new Date(nowMs).toISOString(), nowMs);
  if (state.pending !== undefined && sizeBytes >= state.pending.sizeBytes) state.pending = undefined;
}

function addTimes(changesAtMs: number[], reported: readonly string[]): void {
  const all = new Set([...changesAtMs, ...reported.map((time) => Date.parse(time))]);
  changesAtMs.splice(0, changesAtMs.length, ...[...all].filter((timeMs) => timeMs > 0).sort((a, b) => a - b));
}

function noteChange(changesAtMs: number[], endedAt: string, nowMs: number): void {
  addTimes(changesAtMs, [endedAt]);
  while ((changesAtMs[0] ?? nowMs) < nowMs - DAY_MS) changesAtMs.shift();
}
