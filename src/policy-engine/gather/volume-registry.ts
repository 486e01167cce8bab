// What the engine remembers of each volume between two decisions: readings, history, timers, the target under way. It is
// memory only; all of it is gathered again after a restart, and until it is, nothing shrinks.
import type { ScalingStatus } from "../../api/filesystem.ts";
import type { FilesystemLayout, LastOperation } from "../../api/filesystem-layout.ts";
import { filesystemSizeBytes } from "../../api/filesystem-size.ts";
import type { Sample } from "../../gen/tidemark/samples/v1/samples.ts";
import type { Instant } from "../../process/clock.ts";
import type { Plan } from "../decide/plan.ts";
import type { NodeFacts, PlannedShrink, Reading } from "../facts/facts.ts";
import { UsageHistory } from "../facts/usage-history.ts";
import type { CompiledPolicy } from "../policies/compiled-policy.ts";
import { NO_RULE_TIMERS, type RuleTimers } from "../rules/rule-timers.ts";
import { type Change, type Changes, datedAtMs, noteChanges } from "./changes.ts";
import type { NodeStamp, SeenEnd } from "./place-in-time.ts";
import type { PrometheusReading } from "./prometheus.ts";

/** How often an agent sends at least one sample of each filesystem. */
const AGENT_INTERVAL_MS = 1000;

export interface PendingTarget {
  readonly kind: "Extend" | "Shrink";
  readonly sizeBytes: number;
  /** What it may have meanwhile; 0: nothing more than it has. */
  readonly mostBytes: number;
  readonly decidedAt: string;
  /** On the monotonic clock, as all times of this file that are no date of the API server. */
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

export interface VolumeState extends Changes {
  readonly handle: string;
  claimGrowth: ClaimGrowth | undefined;
  readonly history: UsageHistory;
  reading: Reading | undefined;
  /** What dated the reading: its node's clock, or Prometheus', in which nothing but the same scrape is looked for. */
  stamp: NodeStamp | undefined;
  scrapedAtMs: number | undefined;
  growthBytesPerSecond: number | undefined;
  peakWriteBytesPerSecond: number | undefined;
  node: NodeFacts | undefined;
  timers: RuleTimers;
  /** Its layout was seen before: what ends from now on ends when it is heard. */
  layoutKnown: boolean;
  lastEnd: SeenEnd | undefined;
  /** How many shrinks in a row failed, or found somebody else at work, since this process began. */
  shrinksInVain: number;
  pending: PendingTarget | undefined;
  /** When a shrink was last asked to stop; a cache may show that later. */
  stopAskedAtMs: number | undefined;
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
    sampled: (nodeName, sample, at) => takeSample(get(sample.volumeHandle), nodeName, sample, at),
    scraped: (handle, reading, intervalMs, at) => takeScrape(get(handle), reading, intervalMs, at),
    layoutSeen: (layout, at) => takeLayout(get(layout.metadata.name), layout, at),
    claimSeen: (handle, sizeBytes, at) => takeClaim(get(handle), sizeBytes, at),
    recall: (handle, { extendedAt = [], shrunkAt = [] }, at) => {
      const state = get(handle);
      noteChanges(state.extends, datedChanges(extendedAt, at), at);
      noteChanges(state.shrinks, datedChanges(shrunkAt, at), at);
    },
  };
}

function newState(handle: string): VolumeState {
  return {
    handle,
    claimGrowth: undefined,
    history: new UsageHistory(),
    reading: undefined,
    stamp: undefined,
    scrapedAtMs: undefined,
    growthBytesPerSecond: undefined,
    peakWriteBytesPerSecond: undefined,
    node: undefined,
    timers: NO_RULE_TIMERS,
    extends: [],
    shrinks: [],
    layoutKnown: false,
    lastEnd: undefined,
    shrinksInVain: 0,
    pending: undefined,
    stopAskedAtMs: undefined,
    reported: undefined,
    guided: undefined,
    applying: false,
    askedMeanwhile: false,
    reportTimer: undefined,
  };
}

// A node has one stream, in which the order of arrival is the order of sampling. What its clock says makes no sample new or old.
function takeSample(state: VolumeState, nodeName: string, sample: Sample, { nowMs, monotonicMs }: Instant): boolean {
  const { sampledAtMs: stampMs, lastOperationEndedAtMs: afterEndMs } = sample;
  if (state.node?.name === nodeName && state.stamp?.atMs === stampMs && state.stamp.afterEndMs === afterEndMs)
    return false;
  const usedBytes = sample.capacityBytes - sample.availableBytes;
  state.reading = {
    sampledAtMs: monotonicMs,
    aheadMs: stampMs - nowMs,
    capacityBytes: sample.capacityBytes,
    availableBytes: sample.availableBytes,
    usedBytes,
    inodesTotal: sample.inodesTotal,
    inodesUsed: sample.inodesUsed,
    dataProfiles: sample.dataProfiles,
    source: "agent",
    intervalMs: AGENT_INTERVAL_MS,
  };
  state.stamp = { atMs: stampMs, afterEndMs };
  state.growthBytesPerSecond = sample.growthBytesPerSecond;
  state.peakWriteBytesPerSecond = sample.peakWriteBytesPerSecond;
  state.node = { name: nodeName, freeBytes: sample.nodeFreeBytes, ioUtilizationRatio: sample.ioUtilizationRatio };
  if (sample.operationInProgress) state.history.skip(monotonicMs, AGENT_INTERVAL_MS, monotonicMs);
  else state.history.record(monotonicMs, usedBytes, AGENT_INTERVAL_MS, monotonicMs);
  return true;
}

// How old a scrape is Prometheus says, by its own clock alone: neither the engine's nor the node's comes into it.
function takeScrape(
  state: VolumeState,
  scraped: PrometheusReading,
  intervalMs: number,
  { monotonicMs }: Instant,
): void {
  const { ageMs, scrapedAtMs, ...figures } = scraped;
  const sampledAtMs = monotonicMs - ageMs;
  const known = state.reading;
  if (known?.source === "prometheus" && state.scrapedAtMs === scrapedAtMs) return;
  if (known !== undefined && sampledAtMs <= known.sampledAtMs) return;
  const usedBytes = scraped.capacityBytes - scraped.availableBytes;
  state.reading = { ...figures, sampledAtMs, aheadMs: 0, usedBytes, source: "prometheus", intervalMs };
  state.stamp = undefined;
  state.scrapedAtMs = scrapedAtMs;
  state.growthBytesPerSecond = undefined;
  state.peakWriteBytesPerSecond = undefined;
  state.history.record(sampledAtMs, usedBytes, intervalMs, monotonicMs);
}

function takeLayout(state: VolumeState, layout: FilesystemLayout, at: Instant): void {
  const last = layout.status?.lastOperation;
  if (last !== undefined && last.endedAt !== state.lastEnd?.endedAt) {
    const stampMs = Date.parse(last.endedAt);
    const seenAtMs = state.layoutKnown ? at.monotonicMs : datedAtMs(stampMs, at);
    state.lastEnd = { endedAt: last.endedAt, seenAtMs };
    if (last.kind === "Shrink") state.shrinksInVain = isInVain(last) ? state.shrinksInVain + 1 : 0;
    // A shrink that found its floor at once, or was cancelled before its first step, changed nothing.
    if (last.reached !== last.from)
      noteChanges(last.kind === "Extend" ? state.extends : state.shrinks, [{ stampMs, atMs: seenAtMs }], at);
  }
  state.layoutKnown = true;
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

function takeClaim(state: VolumeState, sizeBytes: number, at: Instant): void {
  const known = state.claimGrowth;
  const hasGrown = known !== undefined && sizeBytes > known.sizeBytes;
  state.claimGrowth = hasGrown
    ? { sizeBytes, grownAtMs: at.monotonicMs, capacityBeforeBytes: state.pending?.capacityBytes }
    : { sizeBytes, grownAtMs: known?.grownAtMs, capacityBeforeBytes: known?.capacityBeforeBytes };
  if (hasGrown) noteChanges(state.extends, [{ stampMs: at.nowMs, atMs: at.monotonicMs }], at);
  if (state.pending !== undefined && sizeBytes >= state.pending.sizeBytes) state.pending = undefined;
}

function datedChanges(reported: readonly string[], at: Instant): Change[] {
  return reported.map((time) => {
    const stampMs = Date.parse(time);
    return { stampMs, atMs: datedAtMs(stampMs, at) };
  });
}
