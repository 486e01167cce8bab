// The figures of one run, computed from its log. Pure; the shape is public: `make demo ARGS=--json` prints exactly this.

import { changesOf, type RunLog, type SpacePoint } from "../run/run-log.ts";
import { findCrossings } from "../script/crossings.ts";
import type { Verification } from "../script/verify.ts";
import type { WriterError, WriterTotals } from "../writers/writer.ts";

export interface Percentiles {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

export interface SummaryDecision {
  readonly atMs: number;
  readonly plan: string;
  readonly reason: string;
  readonly fromBytes: number;
  readonly toBytes: number;
}

export interface DemoSummary {
  readonly storage: "real" | "simulated";
  readonly fsType: string;
  readonly durationMs: number;
  readonly writtenBytes: number;
  readonly extends: number;
  readonly shrinks: number;
  readonly cancelledShrinks: number;
  readonly filesVerified: number;
  readonly bytesVerified: number;
  readonly corruptFiles: number;
  readonly writerErrors: number;
  /** Null: it did not fill up within the run. */
  readonly fixedVolumeFullAtMs: number | null;
  /** From use over the threshold to a larger size, as the demo's own samples saw it. */
  readonly crossingMs: Percentiles | null;
  /** Crossings while a shrink was under way, which had to be cancelled first. */
  readonly crossingDuringShrinkMs: Percentiles | null;
  /** Of all crossings, those that no sample saw: they count from the last sample before, so are rather too long. */
  readonly crossingsBetweenSamples: number;
  readonly policyEditMs: number | null;
  readonly maxWriteStallMs: number;
  readonly minAvailableBytes: number;
  readonly averageCapacityBytes: number;
  readonly nominalBytes: number;
  readonly hostBytesMax: number;
  readonly hostBytesEnd: number;
  readonly decisions: readonly SummaryDecision[];
}

/** What the log does not hold. */
export interface RunFigures {
  readonly storage: DemoSummary["storage"];
  readonly fsType: string;
  readonly nominalBytes: number;
  /** The use at which the policy extends. */
  readonly extendAtRatio: number;
  readonly writer: WriterTotals;
  readonly writerErrors: readonly WriterError[];
  readonly verification: Verification;
}

/** A finished shrink counts when it gave back at least this much of the capacity. */
const SHRINK_COUNTS_FROM_RATIO = 0.25;

export function summarize(log: RunLog, figures: RunFigures): DemoSummary {
  const crossings = findCrossings(log.points, log.operations, figures.extendAtRatio);
  const durations = (duringShrink: boolean): number[] =>
    crossings.filter((crossing) => crossing.duringShrink === duringShrink).map(({ durationMs }) => durationMs);
  return {
    storage: figures.storage,
    fsType: figures.fsType,
    durationMs: Math.round(log.endedAtMs ?? log.points.at(-1)?.atMs ?? 0),
    writtenBytes: figures.writer.writtenBytes,
    ...countOperations(log),
    filesVerified: figures.verification.filesVerified,
    bytesVerified: figures.verification.bytesVerified,
    corruptFiles: figures.verification.corruptFiles,
    writerErrors: figures.writerErrors.length,
    fixedVolumeFullAtMs: roundedOrNull(log.fixedVolumeFullAtMs),
    crossingMs: percentiles(durations(false)),
    crossingDuringShrinkMs: percentiles(durations(true)),
    crossingsBetweenSamples: crossings.filter(({ betweenSamples }) => betweenSamples).length,
    policyEditMs: roundedOrNull(log.policyEditMs),
    maxWriteStallMs: Math.round(figures.writer.maxWriteStallMs),
    minAvailableBytes: log.points.reduce(
      (least, { availableBytes }) => Math.min(least, availableBytes),
      Number.MAX_SAFE_INTEGER,
    ),
    averageCapacityBytes: Math.round(averageCapacityBytes(log.points)),
    nominalBytes: figures.nominalBytes,
    hostBytesMax: log.hostPoints.reduce((most, { bytes }) => Math.max(most, bytes), 0),
    hostBytesEnd: log.hostPoints.at(-1)?.bytes ?? 0,
    decisions: log.decisions
      .filter(({ plan }) => plan !== "hold")
      .map(({ atMs, plan, reason, fromBytes, toBytes }) => ({
        atMs: Math.round(atMs),
        plan,
        reason,
        fromBytes,
        toBytes,
      })),
  };
}

function countOperations({ operations }: RunLog): Pick<DemoSummary, "extends" | "shrinks" | "cancelledShrinks"> {
  const changes = changesOf(operations);
  const shrinks = changes.filter(({ kind }) => kind === "Shrink");
  return {
    extends: changes.filter(({ kind, outcome }) => kind === "Extend" && outcome === "Succeeded").length,
    shrinks: shrinks.filter(
      ({ outcome, fromBytes, reachedBytes }) =>
        outcome === "Succeeded" && fromBytes - reachedBytes >= SHRINK_COUNTS_FROM_RATIO * fromBytes,
    ).length,
    cancelledShrinks: shrinks.filter(({ outcome }) => outcome === "Cancelled").length,
  };
}

/** Nearest rank; null without values, for none is not 0. */
export function percentiles(values: readonly number[]): Percentiles | null {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const rank = (ratio: number): number => rounded(sorted[Math.max(0, Math.ceil(ratio * sorted.length) - 1)] ?? 0);
  return { p50: rank(0.5), p99: rank(0.99), max: rank(1) };
}

/** Weighted by time: each sample's capacity holds until the next one. */
export function averageCapacityBytes(points: readonly SpacePoint[]): number {
  const first = points[0];
  const last = points.at(-1);
  if (first === undefined || last === undefined) return 0;
  if (first.atMs === last.atMs) return last.capacityBytes;
  let byteMs = 0;
  let previous = first;
  for (const point of points) {
    byteMs += previous.capacityBytes * (point.atMs - previous.atMs);
    previous = point;
  }
  return byteMs / (last.atMs - first.atMs);
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}

function roundedOrNull(value: number | undefined): number | null {
  return value === undefined ? null : Math.round(value);
}
