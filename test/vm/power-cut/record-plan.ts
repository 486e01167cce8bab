// Power cuts while the agent writes its node records.
import type { CutPlan, Span, Story } from "./cut-plan.ts";

type Phase = "writing" | "before it writes";

const WRITING: Span = { line: "writing", until: "written" };
const VERIFIED: Span = { line: "verified", until: "writing" };

const plan: CutPlan = {
  spans: [WRITING, VERIFIED],
  goals: [{ phases: ["writing"] satisfies Phase[], aims: [WRITING] }],
  aim: (index) => (index % 4 === 3 ? VERIFIED : WRITING),
  phaseOf: (said): Phase => (said.includes("writing") ? "writing" : "before it writes"),
};

export const RECORDED: Story = {
  machine: new URL("records-machine.ts", import.meta.url),
  plan,
  lives: [{ name: "records", firstAim: 0 }],
};
