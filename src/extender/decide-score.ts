// How well a node that takes a pod's volumes suits them, 0 to 10 as the scheduler counts. Pure; what nobody can tell has no part in it.

import { neededOf, roomOf, type TakenOfNode } from "./decide-fit.ts";
import type { Demand } from "./demand.ts";
import { type ClassFacts, classOf, type NodeFacts } from "./node-facts.ts";

/** MaxExtenderPriority of kube-scheduler. */
export const SCORE_LIMIT = 10;

export interface ScoreSettings {
  /** How much each part counts; 0: not at all. */
  readonly weights: { readonly free: number; readonly growth: number; readonly io: number };
  /** Of the free part, by device class: a class whose volumes are large has a large one. */
  readonly divisors: ReadonlyMap<string, number>;
  readonly defaultDivisor: number;
}

/** Each 0 to 10; undefined: nobody can tell, or the pod asks for none of it. */
export interface ScoreParts {
  /** What is free after the pod, of the class that has least: its logarithm, so that a full node differs from a fuller one. */
  readonly free: number | undefined;
  /** The part of the class that is free after the pod: what its volumes can grow into. */
  readonly growth: number | undefined;
  /** How idle the disks are. */
  readonly io: number | undefined;
}

export function scoreParts(demand: Demand, node: NodeFacts, taken: TakenOfNode, settings: ScoreSettings): ScoreParts {
  const left = demand.classes.flatMap((one) => {
    const found = classOf(node, one);
    if (found?.freeBytes === undefined) return [];
    const bytes = roomOf(found, found.freeBytes, taken) - neededOf(demand.classes, node, found);
    return [{ found, bytes: Math.max(0, bytes) }];
  });
  return {
    free: leastOf(left.map(({ found, bytes }) => freeScore(bytes, divisorOf(found, settings)))),
    growth: leastOf(left.flatMap(({ found, bytes }) => growthScore(bytes, found) ?? [])),
    io: node.ioUtilizationRatio === undefined ? undefined : SCORE_LIMIT * (1 - node.ioUtilizationRatio),
  };
}

/** The weighted mean of the parts that are known, rounded; 0 of none. */
export function scoreOf(parts: ScoreParts, { weights }: ScoreSettings): number {
  let sum = 0;
  let weight = 0;
  for (const name of ["free", "growth", "io"] as const) {
    const part = parts[name];
    if (part === undefined) continue;
    sum += part * weights[name];
    weight += weights[name];
  }
  return weight === 0 ? 0 : Math.min(SCORE_LIMIT, Math.max(0, Math.round(sum / weight)));
}

const GIB = 1024 ** 3;

/** As TopoLVM's scheduler extender: 0 for nothing, 1 under 1 GiB, else log2 of the GiB over the divisor, 1 to 10. */
export function freeScore(bytes: number, divisor: number): number {
  if (bytes <= 0) return 0;
  const gibibytes = Math.floor(bytes / GIB);
  if (gibibytes < 1) return 1;
  return Math.min(SCORE_LIMIT, Math.max(1, Math.floor(Math.log2(gibibytes / divisor))));
}

function growthScore(bytes: number, { sizeBytes }: ClassFacts): number | undefined {
  return sizeBytes === undefined || sizeBytes <= 0 ? undefined : SCORE_LIMIT * Math.min(1, bytes / sizeBytes);
}

function divisorOf({ name }: ClassFacts, { divisors, defaultDivisor }: ScoreSettings): number {
  return divisors.get(name) ?? defaultDivisor;
}

function leastOf(values: readonly number[]): number | undefined {
  return values.length === 0 ? undefined : Math.min(...values);
}
