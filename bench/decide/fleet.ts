// 100,000 volumes of 20 teams, the same in every run: most are at rest, one in twenty has a rule that fires, and some are near
// one. Made before anything is timed.

import { NO_DATA_PROFILES } from "../../src/contracts/formulas/data-profiles.ts";
import type { VolumePolicy } from "../../src/contracts/kinds/volume-policy.ts";
import { GIB } from "../../src/contracts/quantities/quantity.ts";
import {
  type CompiledPolicy,
  compilePolicy,
  type Facts,
  NO_CHANGES,
  UsageHistory,
} from "../../src/policy-engine/index.ts";

export const NOW_MS = Date.UTC(2026, 0, 15, 12, 0, 0);
const HOUR_MS = 3_600_000;
const HISTORY_HOURS = 30;
const SAMPLE_INTERVAL_MS = 15_000;
const INODES_TOTAL = 1_000_000;

/** The figures of one team's policy, as its YAML and the hand-written decision both have them. */
export interface Team {
  readonly namespace: string;
  readonly extendAtRatio: number;
  readonly extendTargetRatio: number;
  readonly inodesRatio: number;
  readonly inodesByRatio: number;
  readonly tier: string;
  readonly shrinkBelowRatio: number;
  readonly shrinkTargetRatio: number;
  readonly shrinkForMs: number;
}

const INODES_RULE = "extend-inodes";
const SHRINK_RULE = "shrink-below";
export const RULE_NAMES = { space: "extend-at", inodes: INODES_RULE, shrink: SHRINK_RULE } as const;
export const LIMITS = { minBytes: 5 * GIB, maxBytes: 400 * GIB } as const;

export function makeTeams(count: number): Team[] {
  return Array.from({ length: count }, (_, index) => ({
    namespace: `team-${index}`,
    extendAtRatio: (80 + (index % 5)) / 100,
    extendTargetRatio: (60 + (index % 4)) / 100,
    inodesRatio: (88 + (index % 3)) / 100,
    inodesByRatio: (20 + (index % 10)) / 100,
    tier: index % 2 === 0 ? "cache" : "database",
    shrinkBelowRatio: (25 + (index % 6)) / 100,
    shrinkTargetRatio: (45 + (index % 6)) / 100,
    shrinkForMs: HOUR_MS * (1 + (index % 3)),
  }));
}

/** The team's policy as its repository has it. */
export function policyObjectOf(team: Team): VolumePolicy {
  const percent = (ratio: number): string => `${Math.round(ratio * 100)}%`;
  return {
    apiVersion: "tidemark.dev/v1alpha1",
    kind: "VolumePolicy",
    metadata: { name: "default", namespace: team.namespace, creationTimestamp: "2026-01-01T00:00:00Z" },
    spec: {
      mode: { extend: "Enforce", shrink: "Enforce" },
      limits: { min: "5Gi", max: "400Gi" },
      rules: [
        {
          name: RULE_NAMES.space,
          action: "Extend",
          when: `volume.usedRatio >= ${team.extendAtRatio}`,
          targetUsed: percent(team.extendTargetRatio),
        },
        {
          name: INODES_RULE,
          action: "Extend",
          when: `volume.inodesUsedRatio >= ${team.inodesRatio} && volume.labels["tier"] == "${team.tier}"`,
          by: percent(team.inodesByRatio),
        },
        {
          name: SHRINK_RULE,
          action: "Shrink",
          when: `volume.usedRatioMax("24h") < ${team.shrinkBelowRatio}`,
          for: `${team.shrinkForMs / HOUR_MS}h`,
          targetUsed: percent(team.shrinkTargetRatio),
        },
      ],
    },
  };
}

/** Compiled. Throws when it does not compile. */
export function policyOf(team: Team): CompiledPolicy {
  const compiled = compilePolicy(policyObjectOf(team));
  const [problem] = compiled.problems;
  if (problem !== undefined)
    throw new Error(`the benchmark's policy does not compile: ${problem.field}: ${problem.message}`);
  return compiled;
}

/** One volume's place in the mix: of 1000, so many have each shape. */
interface Shape {
  readonly perMille: number;
  readonly usedRatio: number;
  readonly inodesRatio: number;
  readonly tier: string;
  readonly fsType: "btrfs" | "xfs";
  /** How long the shrink rule has held; undefined: it did not hold at the last evaluation. */
  readonly heldMs?: number;
  readonly shrunkAgoMs?: number;
}

const REST = { inodesRatio: 0.1, tier: "cache", fsType: "btrfs" } as const;
const SHAPES: readonly Shape[] = [
  { ...REST, perMille: 15, usedRatio: 0.87 }, // extends for space
  { ...REST, perMille: 3, usedRatio: 0.97 }, // extends because minAvailable is crossed
  { ...REST, perMille: 6, usedRatio: 0.6, inodesRatio: 0.95, fsType: "xfs" }, // extends for inodes, in every other team
  { ...REST, perMille: 6, usedRatio: 0.6, inodesRatio: 0.95, fsType: "xfs", tier: "database" }, // … in the others
  { ...REST, perMille: 23, usedRatio: 0.15, heldMs: 5 * HOUR_MS }, // shrinks
  { ...REST, perMille: 3, usedRatio: 0.15, heldMs: 5 * HOUR_MS, fsType: "xfs" }, // fires, and xfs cannot
  { ...REST, perMille: 4, usedRatio: 0.15, heldMs: 0.5 * HOUR_MS }, // not yet for long enough
  { ...REST, perMille: 2, usedRatio: 0.15, heldMs: 5 * HOUR_MS, shrunkAgoMs: 2 * HOUR_MS }, // cooling down
  { ...REST, perMille: 300, usedRatio: 0.7 },
  { ...REST, perMille: 300, usedRatio: 0.55, fsType: "xfs", tier: "database" },
  { ...REST, perMille: 338, usedRatio: 0.45, tier: "web" },
];

/** Which shape each of 1000 neighbours has, spread so that no team has one kind only. */
function shapeOf(index: number): Shape {
  let place = (index * 389) % 1000;
  for (const shape of SHAPES) {
    if (place < shape.perMille) return shape;
    place -= shape.perMille;
  }
  throw new Error("the shapes do not sum to 1000");
}

/** Of a volume of the team, which its policy decides. */
export function makeFacts(index: number, team: Team, { rules }: CompiledPolicy): Facts {
  const shape = shapeOf(index);
  const capacityBytes = (16 + (index % 160)) * GIB;
  const jitter = ((index % 101) - 50) / 10_000;
  const usedBytes = Math.round(capacityBytes * (shape.usedRatio + jitter));
  const heldSinceMs = new Map<string, number>();
  const shrinkRule = rules.find(({ name }) => name === SHRINK_RULE);
  if (shape.heldMs !== undefined && shrinkRule !== undefined)
    heldSinceMs.set(shrinkRule.timerKey, NOW_MS - shape.heldMs);
  return {
    nowMs: NOW_MS,
    monotonicMs: NOW_MS,
    claim: {
      namespace: team.namespace,
      name: `data-${index}`,
      labels: { app: `app-${index % 500}`, tier: shape.tier },
      annotations: {},
      storageClassName: "tidemark-loop",
      backend: "loop",
      fsType: shape.fsType,
      volumeMode: "Filesystem",
      nominalBytes: capacityBytes,
      initialSizeBytes: 5 * GIB,
      classMaxBytes: undefined,
      raisedRequestBytes: undefined,
      createdAtMs: NOW_MS - 90 * 24 * HOUR_MS,
      deleting: false,
      otherAutoscaler: undefined,
      infeasibleResize: undefined,
    },
    filesystem: {
      sizeBytes: capacityBytes,
      mounted: true,
      reading: {
        sampledAtMs: NOW_MS - (index % 14) * 1000,
        takenMs: NOW_MS - (index % 14) * 1000,
        aheadMs: 0,
        afterEndMs: undefined,
        capacityBytes,
        availableBytes: capacityBytes - usedBytes,
        usedBytes,
        inodesTotal: shape.fsType === "xfs" ? INODES_TOTAL : 0,
        inodesUsed: shape.fsType === "xfs" ? Math.round(INODES_TOTAL * shape.inodesRatio) : 0,
        dataProfiles: NO_DATA_PROFILES,
        growthBytesPerSecond: (index % 7) * 10_000,
        peakWriteBytesPerSecond: undefined,
        source: "prometheus",
        intervalMs: SAMPLE_INTERVAL_MS,
      },
      operationInProgress: undefined,
      lastOperation: undefined,
      extendsInVain: 0,
      capacityAtExtendBytes: undefined,
      shrinksUnmounted: false,
      plannedShrink: undefined,
      history: historyOf(index, usedBytes),
    },
    node: undefined,
    namespaceBytes: capacityBytes,
    metricsStale: false,
    evaluationIntervalMs: 15_000,
    vainExtends: new Map(),
    ruleTimers: { heldSinceMs, evaluatedAtMs: NOW_MS - SAMPLE_INTERVAL_MS },
    changes:
      shape.shrunkAgoMs === undefined ? NO_CHANGES : { extendsAtMs: [], shrinksAtMs: [NOW_MS - shape.shrunkAgoMs] },
  };
}

/** Thirty hours, each a little different, as Prometheus remembers them, and the newest sample. */
function historyOf(index: number, usedBytes: number): UsageHistory {
  const history = new UsageHistory();
  const hours = Array.from({ length: HISTORY_HOURS }, (_, hour) => ({
    hourStartMs: NOW_MS - (HISTORY_HOURS - hour) * HOUR_MS,
    usedBytes: Math.round(usedBytes * (1 + (((index + hour * 7) % 13) - 6) / 1000)),
  }));
  history.backfill(hours, NOW_MS);
  history.record(NOW_MS - (index % 14) * 1000, usedBytes, SAMPLE_INTERVAL_MS, NOW_MS);
  return history;
}
