// Facts about one volume, whole and unremarkable, on top of which a test says what matters: 10 GiB of btrfs, half used.
import { type Facts, type FilesystemFacts, NO_CHANGES, type Reading } from "../../src/policy-engine/facts/facts.ts";
import type { MissingHistory, UsageWindows } from "../../src/policy-engine/facts/usage-history.ts";
import { NO_RULE_TIMERS } from "../../src/policy-engine/rules/rule-timers.ts";
import { GIB } from "../../src/units/quantity.ts";

export const NOW_MS = Date.parse("2026-11-20T12:00:00Z");

/** What a test may say about a volume; everything else is unremarkable. */
export interface VolumeShape {
  sizeBytes?: number;
  /** Of the capacity. */
  usedRatio?: number;
  /** The most used at any time in any window; usedRatio unless said otherwise. */
  peakRatio?: number;
  history?: UsageWindows;
  reading?: Partial<Reading> | "none";
  claim?: Partial<Facts["claim"]>;
  filesystem?: Partial<FilesystemFacts>;
  facts?: Partial<Facts>;
}

/** A history whose every window has the same answer. */
export function steadyHistory(answer: number | MissingHistory): UsageWindows {
  return { maxUsedBytes: () => answer };
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
      growthBytesPerSecond: 0,
      peakWriteBytesPerSecond: 0,
      operationInProgress: undefined,
      lastOperation: undefined,
      extendsInVain: 0,
      capacityAtExtendBytes: undefined,
      history: shape.history ?? steadyHistory(peakBytes),
      shrinksUnmounted: false,
      plannedShrink: undefined,
      ...shape.filesystem,
    },
    node: { name: "node-a", freeBytes: 1024 * GIB, ioUtilizationRatio: 0.1 },
    namespaceBytes: sizeBytes,
    metricsStale: false,
    ruleTimers: NO_RULE_TIMERS,
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

function aReading(capacityBytes: number, usedBytes: number, reading: Partial<Reading> = {}): Reading {
  return {
    sampledAtMs: NOW_MS - 200,
    aheadMs: 0,
    capacityBytes,
    availableBytes: capacityBytes - usedBytes,
    usedBytes,
    inodesTotal: 0,
    inodesUsed: 0,
    source: "agent",
    intervalMs: 1000,
    ...reading,
  };
}
