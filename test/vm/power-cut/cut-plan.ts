// When the power is cut, by a seed; and what of its work a machine was at when it lost it. Pure.
import type { DeviceClassName, Disk } from "./machine-settings.ts";

/** From a line that the machine says to another one. */
export interface Span {
  readonly line: string;
  readonly until: string;
}

export interface Cut extends Span {
  readonly disk: Disk;
  /** What share of the time from that line to `until` goes by before the cut. */
  readonly share: number;
}

export interface CutPlan {
  /** What has to be measured, so that cuts are spread over it. */
  readonly spans: readonly Span[];
  /** Each must have been hit in the end. */
  readonly goals: readonly Goal[];
  /** Absent: any. */
  readonly disks?: readonly Disk[];
  /** Of the `index`-th cut. */
  aim(index: number): Span;
  /** What it was at, by all that it said, and all that the next boot said. */
  phaseOf(said: readonly string[], next: readonly string[]): string;
}

export interface Goal {
  /** Any of them: those that take a few milliseconds share a goal. */
  readonly phases: readonly string[];
  /** One cut after the other leads there. */
  readonly aims: readonly Span[];
  /** Absent: it is in every life. */
  readonly deviceClass?: DeviceClassName;
}

export interface Life {
  readonly name: string;
  /** Of a life on LVM. */
  readonly deviceClass?: DeviceClassName;
  /** The index of its first cut. */
  readonly firstAim: number;
}

/** What is done by the machines that lose their power, and where they lose it. */
export interface Story {
  readonly machine: URL;
  readonly plan: CutPlan;
  /** Side by side. */
  readonly lives: readonly Life[];
}

const DISKS: readonly Disk[] = ["Direct", "LosesCache", "ReordersCache"];

/** `random` gives numbers from 0 to 1. */
export function planCut({ disks = DISKS }: CutPlan, aim: Span, random: () => number): Cut {
  const disk = disks[Math.floor(random() * disks.length)] ?? "Direct";
  return { disk, share: random(), ...aim };
}

/** What no cut has hit yet. */
export function missedGoals(goals: readonly Goal[], hits: ReadonlySet<string>): Goal[] {
  return goals.filter(({ phases }) => !phases.some((phase) => hits.has(phase)));
}

/** By the last line of those that say one: what it is at from then on. */
export function lastPhaseOf<Phase>(said: readonly string[], phases: ReadonlyMap<string, Phase>): Phase | undefined {
  const last = said.findLast((line) => phases.has(line));
  return last === undefined ? undefined : phases.get(last);
}

/** mulberry32: 32 bits of state, whole period. */
export function createRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
