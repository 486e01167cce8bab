// Power cuts in the shrink of a mounted btrfs, thick and thin.
import { type CutPlan, lastPhaseOf, type Span, type Story } from "./cut-plan.ts";

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

/** Every second cut is anywhere in the whole shrink. */
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

const plan: CutPlan = {
  spans: [WHOLE, ...AIMS],
  aim: (index) => (index % 2 === 0 ? undefined : AIMS[(index >> 1) % AIMS.length]) ?? WHOLE,
  phaseOf,
};

export const SHRINKS: Story = {
  machine: new URL("machine.ts", import.meta.url),
  plan,
  lives: [
    { deviceClass: "thick", firstAim: 0 },
    { deviceClass: "thin", firstAim: 0 },
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
