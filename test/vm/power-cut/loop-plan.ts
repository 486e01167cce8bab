// Power cuts in the life of a volume of the backend loop: it shrinks and grows under a writer.
import { type CutPlan, type Goal, lastPhaseOf, type Span, type Story } from "./cut-plan.ts";

type Phase =
  | "being made"
  | "recovering"
  | "growing"
  | "resizing"
  | "resized, before the file is cut"
  | "file being cut"
  | "between steps"
  | "grown under the writer";

/** Of the first boot alone. */
const MAKING: Span = { line: "stage/record-formatting/before", until: "stage/mount/before" };
const RESIZING: Span = { line: "shrink/resize-filesystem/before", until: "shrink/resize-filesystem/after" };
const RESIZED: Span = { line: "shrink/resize-filesystem/after", until: "shrink/truncate-file/before" };
const CUTTING: Span = { line: "shrink/truncate-file/before", until: "shrink/refresh-loop/after" };
/** Right after a cut, when the writer's next fsync may bring one of the two to the disk. */
const CUT: Span = { line: "shrink/refresh-loop/after", until: "shrink/resize-filesystem/after" };
const GROWING_UNDER_WRITER: Span = { line: "shrunk", until: "grown" };
const GROWING_FILE: Span = { line: "extend/grow-file/before", until: "extend/resize-filesystem/after" };
const GROWN: Span = { line: "waiting", until: "" };
const WHOLE: Span = { line: "shrinking", until: "waiting" };
const RECOVERING: Span = { line: "stage/attach/before", until: "verified" };

const AIMS = [RESIZING, CUTTING, GROWING_UNDER_WRITER, WHOLE, RESIZED, CUT, GROWING_FILE, CUTTING, RECOVERING, GROWN];

const GOALS: readonly (Goal & { readonly phases: readonly Phase[] })[] = [
  { phases: ["resizing"], aims: [RESIZING] },
  { phases: ["resized, before the file is cut", "file being cut"], aims: [{ ...RESIZED, until: CUTTING.until }] },
  { phases: ["growing"], aims: [GROWING_UNDER_WRITER] },
  { phases: ["between steps", "grown under the writer"], aims: [GROWN] },
];

const plan: CutPlan = {
  spans: [...new Set([MAKING, ...AIMS, ...GOALS.flatMap(({ aims }) => aims)])],
  goals: GOALS,
  aim: (index) => (index === 0 ? MAKING : (AIMS[(index - 1) % AIMS.length] ?? WHOLE)),
  phaseOf,
};

export const LOOP_VOLUMES: Story = {
  machine: new URL("loop-machine.ts", import.meta.url),
  plan,
  lives: [{ name: "loop", firstAim: 0 }],
};

function phaseOf(said: readonly string[]): Phase {
  const phase = lastPhaseOf(said.map(withoutFigures), PHASE_AFTER) ?? "recovering";
  return phase === "grown under the writer" && !said.includes("shrinking") ? "between steps" : phase;
}

const withoutFigures = (line: string): string => (line.startsWith("shrunk ") ? "shrunk" : line);

const PHASE_AFTER: ReadonlyMap<string, Phase> = new Map([
  ["stage/create-member/before", "being made"],
  ["stage/mount/before", "recovering"],
  ["growing", "growing"],
  ["grown", "grown under the writer"],
  ["shrinking", "between steps"],
  ["shrink/resize-filesystem/before", "resizing"],
  ["shrink/resize-filesystem/after", "resized, before the file is cut"],
  ["shrink/truncate-file/before", "file being cut"],
  ["shrink/refresh-loop/after", "between steps"],
  ["shrunk", "between steps"],
]);
