// Power cuts in the shrink of a mounted btrfs, thick and thin.
import { type CutPlan, type Goal, lastPhaseOf, type Span, type Story } from "./cut-plan.ts";

type Phase =
  | "recovering"
  | "growing"
  | "between steps"
  | "resizing"
  | "resized, before lvreduce"
  | "zeroing what is cut off"
  | "in lvreduce, not committed"
  | "in lvreduce, committed"
  | "reduced, not told yet"
  | "shrunk";

const AIMS: readonly Span[] = [
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
];
const WHOLE: Span = { line: "shrinking", until: "shrunk" };
/** So many cuts are aimed at each line in turn, and one of six is anywhere in the shrink; of those that follow every second one is. */
const AIMED = [...AIMS.slice(0, 5), WHOLE, ...AIMS.slice(5), WHOLE];
const AIMED_CUTS = 2 * AIMED.length;

const GOALS: readonly (Goal & { readonly phases: readonly Phase[] })[] = [
  {
    phases: ["resizing"],
    aims: [{ line: "shrink/resize-filesystem/before", until: "shrink/resize-filesystem/after" }],
  },
  {
    phases: ["resized, before lvreduce"],
    aims: [{ line: "shrink/resize-filesystem/after", until: "lvmd-reduce/lvreduce/before" }],
  },
  {
    phases: ["zeroing what is cut off"],
    aims: [{ line: "lvmd-reduce/zero/before", until: "lvmd-reduce/lvreduce/before" }],
    deviceClass: "thick",
  },
  {
    phases: ["in lvreduce, not committed", "in lvreduce, committed", "reduced, not told yet"],
    aims: [{ line: "lvmd-reduce/lvreduce/before", until: "lvmd-reduce/lvreduce/after" }],
  },
  { phases: ["between steps", "shrunk"], aims: [{ line: "shrunk", until: "" }] },
];

const plan: CutPlan = {
  spans: [WHOLE, ...AIMS, ...GOALS.flatMap(({ aims }) => aims)],
  goals: GOALS,
  aim: (index) =>
    (index < AIMED_CUTS ? AIMED[index % AIMED.length] : index % 2 === 0 ? WHOLE : AIMS[(index >> 1) % AIMS.length]) ??
    WHOLE,
  phaseOf,
};

export const SHRINKS: Story = {
  machine: new URL("machine.ts", import.meta.url),
  plan,
  lives: [
    { name: "thick", deviceClass: "thick", firstAim: 0 },
    { name: "thin", deviceClass: "thin", firstAim: 0 },
  ],
};

function phaseOf(said: readonly string[], next: readonly string[]): Phase {
  const from = said.indexOf("shrinking");
  if (from < 0) return said.some((line) => line.startsWith("verified")) ? "growing" : "recovering";
  const during = said.slice(from);
  if (during.some((line) => line.startsWith("shrunk"))) return "shrunk";
  const phase = lastPhaseOf(during, PHASE_AFTER) ?? "between steps";
  return phase === "in lvreduce, not committed" && isCommitted(next) ? "in lvreduce, committed" : phase;
}

const PHASE_AFTER: ReadonlyMap<string, Phase> = new Map([
  ["shrink/resize-filesystem/before", "resizing"],
  ["shrink/resize-filesystem/after", "resized, before lvreduce"],
  // Up to LVM's own command: of a thick volume alone.
  ["lvmd-reduce/zero/before", "zeroing what is cut off"],
  ["lvmd-reduce/lvreduce/before", "in lvreduce, not committed"],
  ["lvmd-reduce/lvreduce/after", "reduced, not told yet"],
  ["shrink/forget-reduction/after", "between steps"],
]);

/** By what the next boot found: the volume has the size that the open reduction asked for. */
function isCommitted(next: readonly string[]): boolean {
  const text = next.find((line) => line.startsWith("left "))?.slice("left ".length);
  const left = JSON.parse(text ?? "{}") as { lvBytes?: number; reduction?: { toBytes: number } | null };
  return left.lvBytes !== undefined && left.lvBytes === left.reduction?.toBytes;
}
