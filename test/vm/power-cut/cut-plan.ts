// When the power is cut, by a seed; and what of its work a machine was at when it lost it. Pure.
import type { Disk } from "./machine-settings.ts";

export const PHASES = [
  "recovering",
  "growing",
  "between steps",
  "resizing",
  "resized, before lvreduce",
  "zeroing what is cut off",
  "in lvreduce, not committed",
  "in lvreduce, committed",
  "reduced, not told yet",
  "shrunk",
] as const;
export type Phase = (typeof PHASES)[number];

export interface Cut {
  readonly disk: Disk;
  /** What the machine says. */
  readonly line: string;
  /** What share of the time from that line to `until` goes by before the cut. */
  readonly until: string;
  readonly share: number;
}

const DISKS: readonly Disk[] = ["Direct", "LosesCache", "ReordersCache"];
/** From a line to a line; every second cut is anywhere in the whole shrink. */
const AIMS = [
  { line: "shrink/resize-filesystem/before", until: "shrink/resize-filesystem/after" },
  { line: "shrink/resize-filesystem/after", until: "lvmd-reduce/record-begin/after" },
  { line: "lvmd-reduce/lvreduce/before", until: "lvmd-reduce/lvreduce/after" },
  { line: "lvmd-reduce/zero/before", until: "lvmd-reduce/lvreduce/before" },
  { line: "lvmd-reduce/lvreduce/after", until: "shrink/forget-reduction/after" },
  { line: "lvmd-reduce/lvreduce/before", until: "lvmd-reduce/lvreduce/after" },
  { line: "shrink/forget-reduction/after", until: "shrink/resize-filesystem/before" },
  { line: "stage/mount/before", until: "extended" },
  { line: "lvmd-reduce/lvreduce/before", until: "lvmd-reduce/lvreduce/after" },
  { line: "shrunk", until: "" },
] as const;
const WHOLE = { line: "shrinking", until: "shrunk" } as const;
/** What has to be measured, so that cuts are spread over it. */
export const SPANS: readonly Pick<Cut, "line" | "until">[] = [WHOLE, ...AIMS];

/** The `index`-th cut of a run; `random` gives numbers from 0 to 1. */
export function planCut(index: number, random: () => number): Cut {
  const disk = DISKS[Math.floor(random() * DISKS.length)] ?? "Direct";
  const share = random();
  const aim = AIMS[(index >> 1) % AIMS.length];
  if (index % 2 === 0 || aim === undefined) return { disk, share, ...WHOLE };
  return { disk, share, ...aim };
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

/** By all that it said; `committed`: whether LVM's metadata has the smaller size. */
export function phaseOf(said: readonly string[], committed: boolean): Phase {
  const from = said.indexOf("shrinking");
  if (from < 0) return said.some((line) => line.startsWith("verified")) ? "growing" : "recovering";
  const during = said.slice(from);
  if (during.some((line) => line.startsWith("shrunk"))) return "shrunk";
  const phase = LAST_SAID.get(during.findLast((line) => LAST_SAID.has(line)) ?? "") ?? "between steps";
  return phase === "in lvreduce, not committed" && committed ? "in lvreduce, committed" : phase;
}

/** What it is at once it has said so. */
const LAST_SAID: ReadonlyMap<string, Phase> = new Map([
  ["shrink/resize-filesystem/before", "resizing"],
  ["shrink/resize-filesystem/after", "resized, before lvreduce"],
  // Up to LVM's own command: of a thick volume alone.
  ["lvmd-reduce/zero/before", "zeroing what is cut off"],
  ["lvmd-reduce/lvreduce/before", "in lvreduce, not committed"],
  ["lvmd-reduce/lvreduce/after", "reduced, not told yet"],
  ["shrink/forget-reduction/after", "between steps"],
]);
