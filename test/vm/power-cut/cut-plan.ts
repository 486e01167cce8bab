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
  /** Of the `index`-th cut. */
  aim(index: number): Span;
  /** What it was at, by all that it said, and all that the next boot said. */
  phaseOf(said: readonly string[], next: readonly string[]): string;
}

/** What is done by the machines that lose their power, and where they lose it. */
export interface Story {
  readonly machine: URL;
  readonly plan: CutPlan;
  /** Beside each other; `firstAim` is the index of the first cut. */
  readonly lives: readonly { readonly deviceClass: DeviceClassName; readonly firstAim: number }[];
}

const DISKS: readonly Disk[] = ["Direct", "LosesCache", "ReordersCache"];

/** `random` gives numbers from 0 to 1. */
export function planCut(plan: CutPlan, index: number, random: () => number): Cut {
  const disk = DISKS[Math.floor(random() * DISKS.length)] ?? "Direct";
  return { disk, share: random(), ...plan.aim(index) };
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
