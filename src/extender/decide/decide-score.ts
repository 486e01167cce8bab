// How well a node that takes a pod's volumes suits them, 0 to 10 as the scheduler counts. Pure; what is unknown has no part in it.

import type { Demand } from "./decide-demand.ts";
import { neededOf, roomOf, type TakenOfNode } from "./decide-fit.ts";
import { type ClassFacts, classOf, type NodeFacts, type Taken } from "./decide-node.ts";

/**
 * What HostPriority.Score of kube-scheduler takes: an int64 from 0 to MaxExtenderPriority. One that is a fraction makes it drop the scores of
 * all nodes, and a larger one outweighs its own.
 */
const SCORES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10] as const;
export type Score = (typeof SCORES)[number];
const SCORE_LIMIT = 10;
/** Something of each score, in their order. */
export type ByScore<Of> = Readonly<Record<Score, Of>>;

export function byScore<Of>(of: (score: Score) => Of): ByScore<Of> {
  return Object.fromEntries(SCORES.map((score) => [score, of(score)])) as Record<Score, Of>;
}

export interface ScoreSettings {
  /** How much each part counts; 0: not at all. */
  readonly weights: { readonly free: number; readonly growth: number; readonly io: number };
  /** Of the free part, by device class: a class whose volumes are large has a large one. */
  readonly divisors: ReadonlyMap<string, number>;
  readonly defaultDivisor: number;
}

/** Each 0 to 10; undefined: it is unknown, or the pod does not ask for it. */
export interface ScoreParts {
  /** What is free after the pod, of the class that has least: its logarithm, so that a full node differs from a fuller one. */
  readonly free: number | undefined;
  /** The part of the class that is free after the pod: what its volumes can grow into. */
  readonly growth: number | undefined;
  /** How idle the disks are. */
  readonly io: number | undefined;
}

/** `own`: the part of what is reserved there that the demand counts once more. */
export function scoreParts(
  { classes }: Demand,
  node: NodeFacts,
  taken: TakenOfNode,
  own: Taken | undefined,
  settings: ScoreSettings,
): ScoreParts {
  let free: number | undefined;
  let growth: number | undefined;
  for (const demand of classes) {
    const found = classOf(node, demand);
    if (found?.freeBytes === undefined) continue;
    const leftBytes = roomOf(found, found.freeBytes, taken, own) - neededOf(classes, node, found);
    free = least(free, freeScore(leftBytes, settings.divisors.get(found.name) ?? settings.defaultDivisor));
    growth = least(growth, growthScore(leftBytes, found));
  }
  const { ioUtilizationRatio } = node;
  return { free, growth, io: ioUtilizationRatio === undefined ? undefined : SCORE_LIMIT * (1 - ioUtilizationRatio) };
}

function least(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || other === undefined ? (one ?? other) : Math.min(one, other);
}

/** The weighted mean of the parts that are known, rounded; 0 of none, and where they make no number. */
export function scoreOf({ free, growth, io }: ScoreParts, { weights }: Pick<ScoreSettings, "weights">): Score {
  const weight =
    (free === undefined ? 0 : weights.free) +
    (growth === undefined ? 0 : weights.growth) +
    (io === undefined ? 0 : weights.io);
  if (weight === 0) return 0;
  const sum = (free ?? 0) * weights.free + (growth ?? 0) * weights.growth + (io ?? 0) * weights.io;
  return SCORES[Math.min(SCORE_LIMIT, Math.max(0, Math.round(sum / weight)))] ?? 0;
}

const GIB = 1024 ** 3;

/** As TopoLVM's scheduler extender: 0 for nothing, 1 under 1 GiB, else log2 of the GiB over the divisor, 1 to 10. */
function freeScore(bytes: number, divisor: number): number {
  if (bytes <= 0) return 0;
  const gibibytes = Math.floor(bytes / GIB);
  if (gibibytes < 1) return 1;
  return Math.min(SCORE_LIMIT, Math.max(1, Math.floor(Math.log2(gibibytes / divisor))));
}

function growthScore(bytes: number, { sizeBytes }: ClassFacts): number | undefined {
  if (sizeBytes === undefined || sizeBytes <= 0) return undefined;
  return SCORE_LIMIT * Math.min(1, Math.max(0, bytes / sizeBytes));
}
