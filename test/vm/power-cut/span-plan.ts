// Power cuts in the life of a span: it gets a member, grows it and gives it back under a writer, and another one is formatted each time.
import { type CutPlan, type Goal, lastPhaseOf, type Span, type Story } from "./cut-plan.ts";

type Phase =
  | "recovering"
  | "being formatted"
  | "formatted"
  | "adding"
  | "growing"
  | "between"
  | "recording that it leaves"
  | "being taken out"
  | "being taken out, magic number cleared"
  | "out, not wiped"
  | "wiped, not recorded"
  | "removed";

const FORMATTING: Span = { line: "span/record-formatting/before", until: "span/record-mounted/after" };
const ADDING: Span = { line: "span/add-device/before", until: "added" };
const GROWING: Span = { line: "growing", until: "grown" };
const LEAVING: Span = { line: "span/record-leaving/before", until: "span/remove-device/before" };
const REMOVING: Span = { line: "span/remove-device/before", until: "span/remove-device/after" };
/** What the kernel itself does last, a few milliseconds of it. */
const COMMITTING: Span = { line: "magic-cleared", until: "span/remove-device/after" };
const OUT: Span = { line: "span/remove-device/after", until: "span/wipe/after" };
const WIPED: Span = { line: "span/wipe/before", until: "span/record-released/after" };
const REMOVED: Span = { line: "span/record-released/after", until: "waiting" };
const RECOVERING: Span = { line: "span/mount/before", until: "verified" };
const WHOLE: Span = { line: "verified", until: "waiting" };

/** The first six are all that a commit takes where each of them hits its goal. */
const AIMS = [REMOVING, WIPED, COMMITTING, FORMATTING, ADDING, LEAVING, OUT, WHOLE, REMOVED, RECOVERING, GROWING];

const GOALS: readonly (Goal & { readonly phases: readonly Phase[] })[] = [
  { phases: ["being formatted"], aims: [FORMATTING] },
  { phases: ["adding", "growing"], aims: [{ ...ADDING, until: GROWING.until }] },
  { phases: ["being taken out"], aims: [REMOVING] },
  { phases: ["being taken out, magic number cleared", "out, not wiped"], aims: [COMMITTING, OUT] },
  { phases: ["wiped, not recorded"], aims: [{ line: "span/wipe/after", until: "span/record-released/after" }] },
];

const plan: CutPlan = {
  spans: [...new Set([...AIMS, ...GOALS.flatMap(({ aims }) => aims)])],
  goals: GOALS,
  aim: (index) => AIMS[index % AIMS.length] ?? WHOLE,
  phaseOf: (said): Phase => lastPhaseOf(said.map(firstWord), PHASE_AFTER) ?? "recovering",
};

export const SPANS: Story = {
  machine: new URL("span-machine.ts", import.meta.url),
  plan,
  lives: [{ name: "span", firstAim: 0 }],
};

const firstWord = (line: string): string => line.split(" ")[0] ?? "";

const PHASE_AFTER: ReadonlyMap<string, Phase> = new Map([
  ["span/record-formatting/before", "being formatted"],
  ["span/record-mounted/after", "formatted"],
  ["verified", "between"],
  ["adding", "adding"],
  ["added", "between"],
  ["growing", "growing"],
  ["grown", "between"],
  ["removing", "recording that it leaves"],
  ["span/remove-device/before", "being taken out"],
  ["magic-cleared", "being taken out, magic number cleared"],
  ["span/remove-device/after", "out, not wiped"],
  ["span/wipe/after", "wiped, not recorded"],
  ["span/record-released/after", "removed"],
]);
