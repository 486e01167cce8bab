// Facts about one volume, whole and unremarkable, on top of which a test says what matters: 10 GiB of btrfs, half used.

import { NO_DATA_PROFILES } from "../../src/contracts/formulas/data-profiles.ts";
import { GIB } from "../../src/contracts/quantities/quantity.ts";
import {
  type Facts,
  type FilesystemFacts,
  type MissingHistory,
  NO_CHANGES,
  NO_RULE_TIMERS,
  NO_VAIN_EXTENDS,
  type ReceivedReading,
  type UsageWindows,
} from "../../src/policy-engine/facts/facts.ts";

export const NOW_MS = Date.parse("2026-11-20T12:00:00Z");

/** What a test may say about a volume; everything else is unremarkable. */
export interface VolumeShape {
  sizeBytes?: number;
  /** Of the capacity. */
  usedRatio?: number;
  /** The most used at any time in any window; usedRatio unless said otherwise. */
  peakRatio?: number;
  history?: UsageWindows;
  /** What rules read as growth over any time, bytes a second; not the agent's of the last seconds. */
  growth?: number;
  reading?: Partial<ReceivedReading> | "none";
  claim?: Partial<Facts["claim"]>;
  filesystem?: Partial<FilesystemFacts>;
  facts?: Partial<Facts>;
}

/** A history whose every window has the same answer. */
export function steadyHistory(answer: number | MissingHistory): UsageWindows {
  return { maxUsedBytes: () => answer, mostSeenBytes: () => (typeof answer === "number" ? answer : 0) };
}

export function aVolume(shape: VolumeShape = {}): Facts {
  const sizeBytes = shape.sizeBytes ?? 10 * GIB;
  const usedBytes = Math.round((shape.usedRatio ?? 0.5) * sizeBytes);
  const peakBytes = Math.round((shape.peakRatio ?? shape.usedRatio ?? 0.5) * sizeBytes);
  return {
    nowMs: NOW_MS,
    // Of a clock that happens to show the same, so that one constant serves for both.
    monotonicMs: NOW_MS,
    claim: aClaim(shape),
    filesystem: {
      sizeBytes,
      mounted: true,
      reading: shape.reading === "none" ? undefined : aReading(sizeBytes, usedBytes, shape.reading),
      operationInProgress: undefined,
      lastOperation: undefined,
      extendsInVain: 0,
      capacityAtExtendBytes: undefined,
      history: shape.history ?? steadyHistory(peakBytes),
      growth: { bytesPerSecond: () => shape.growth ?? 0 },
      shrinksUnmounted: false,
      plannedShrink: undefined,
      ...shape.filesystem,
    },
    node: { name: "node-a", freeBytes: 1024 * GIB, ioUtilizationRatio: 0.1 },
    namespaceBytes: sizeBytes,
    metricsStale: false,
    ruleTimers: NO_RULE_TIMERS,
    evaluationIntervalMs: 15_000,
    vainExtends: NO_VAIN_EXTENDS,
    changes: NO_CHANGES,
    ...shape.facts,
  };
}

function aClaim({ claim }: VolumeShape): Facts["claim"] {
  return {
    namespace: "shop",
    name: "data-0",
    labels: { tier: "cache" },
    annotations: {},
    storageClassName: "tidemark-loop",
    backend: "loop",
    fsType: "btrfs",
    volumeMode: "Filesystem",
    nominalBytes: 10 * GIB,
    initialSizeBytes: 1 * GIB,
    classMaxBytes: undefined,
    raisedRequestBytes: undefined,
    createdAtMs: NOW_MS - 86_400_000,
    deleting: false,
    otherAutoscaler: undefined,
    infeasibleResize: undefined,
    ...claim,
  };
}

function aReading(capacityBytes: number, usedBytes: number, reading: Partial<ReceivedReading> = {}): ReceivedReading {
  return {
    sampledAtMs: NOW_MS - 200,
    takenMs: NOW_MS - 200,
    aheadMs: 0,
    afterEndMs: 0,
    capacityBytes,
    availableBytes: capacityBytes - usedBytes,
    usedBytes,
    inodesTotal: 0,
    inodesUsed: 0,
    dataProfiles: NO_DATA_PROFILES,
    growthBytesPerSecond: 0,
    peakWriteBytesPerSecond: 0,
    source: "agent",
    intervalMs: 1000,
    ...reading,
  };
}
