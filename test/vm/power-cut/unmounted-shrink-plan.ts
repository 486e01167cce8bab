// Power cuts in the shrink of an unmounted ext4 of a thin pool, and in what takes it back.
import { type CutPlan, type Goal, lastPhaseOf, type Span, type Story } from "./cut-plan.ts";

type Phase =
  | "before the snapshot"
  | "being resized"
  | "being taken back"
  | "resized, not proven"
  | "proven, not reduced"
  | "reduced, not ended"
  | "ended"
  | "between";

const WHOLE: Span = { line: "shrinking", until: "shrunk" };
const RESIZING: Span = { line: "unmounted-shrink/resize/before", until: "unmounted-shrink/resize/after" };
/** One after the other: what is taken back is what the cut before has left. */
const AIMS: readonly Span[] = [
  RESIZING,
  { line: "unmounted-shrink/merge/before", until: "unmounted-shrink/merge/after" },
  { line: "unmounted-shrink/record-proven/after", until: "lvmd-reduce/lvreduce/before" },
  WHOLE,
  { line: "unmounted-shrink/record-begun/after", until: "logical-volume/snapshot/after" },
  RESIZING,
  { line: "unmounted-shrink/record-rolling-back/before", until: "unmounted-shrink/record-rolled-back/after" },
  { line: "unmounted-shrink/resize/after", until: "unmounted-shrink/record-proven/after" },
  { line: "lvmd-merge/lvconvert/before", until: "lvmd-merge/lvconvert/after" },
  { line: "lvmd-reduce/lvreduce/before", until: "remove/volume/before" },
  { line: "remove/volume/before", until: "unmounted-shrink/forget/after" },
  { line: "unmounted-shrink/forget/after", until: "shrunk" },
];

const GOALS: readonly (Goal & { readonly phases: readonly Phase[] })[] = [
  { phases: ["before the snapshot"], aims: [{ line: "shrinking", until: "unmounted-shrink/record-guarded/after" }] },
  { phases: ["being resized"], aims: [RESIZING] },
  {
    phases: ["being taken back"],
    aims: [RESIZING, { line: "unmounted-shrink/merge/before", until: "unmounted-shrink/merge/after" }],
  },
  {
    phases: ["resized, not proven", "proven, not reduced", "reduced, not ended"],
    aims: [{ line: "unmounted-shrink/resize/after", until: "unmounted-shrink/forget/after" }],
  },
  { phases: ["ended"], aims: [{ line: "shrunk", until: "" }] },
];

const plan: CutPlan = {
  spans: [...new Set([...AIMS, ...GOALS.flatMap(({ aims }) => aims)])],
  goals: GOALS,
  aim: (index) => AIMS[index % AIMS.length] ?? WHOLE,
  phaseOf,
};

export const UNMOUNTED_SHRINKS: Story = {
  machine: new URL("unmounted-machine.ts", import.meta.url),
  plan,
  lives: [
    { name: "from the first aim", deviceClass: "thin", firstAim: 0 },
    { name: "from the second resize", deviceClass: "thin", firstAim: AIMS.findLastIndex((aim) => aim === RESIZING) },
  ],
};

function phaseOf(said: readonly string[]): Phase {
  if (said.some((line) => line.startsWith("shrunk"))) return "ended";
  return lastPhaseOf(said, PHASE_AFTER) ?? "between";
}

const PHASE_AFTER: ReadonlyMap<string, Phase> = new Map([
  ["unmounted-shrink/record-rolling-back/before", "being taken back"],
  ["finished", "between"],
  ["shrinking", "before the snapshot"],
  ["unmounted-shrink/record-guarded/after", "being resized"],
  ["unmounted-shrink/resize/after", "resized, not proven"],
  ["unmounted-shrink/record-proven/after", "proven, not reduced"],
  ["lvmd-reduce/lvreduce/after", "reduced, not ended"],
  ["unmounted-shrink/forget/after", "ended"],
]);
