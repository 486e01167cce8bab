// Power cuts while a filesystem shrinks on real LVM under a writer that fsyncs: nothing acknowledged is lost, and no volume is ever cut before
// its filesystem has left. A machine of its own is killed by SIGKILL, and boots again on the same disks. TIDEMARK_SEED repeats a plan.
import { describePowerCuts } from "../vm/power-cut/describe-power-cuts.ts";
import { type Phase, SHRINKS } from "../vm/power-cut/shrink-plan.ts";

describePowerCuts<Phase>({
  name: "power cuts",
  claim: (cuts) =>
    `leave every filesystem within its volume and every acknowledged record whole, ${cuts} of each class`,
  story: SHRINKS,
  cuts: { newer: 50, older: 5 },
  // Those that take a few milliseconds share a line.
  hit: [
    ["resizing"],
    ["resized, before lvreduce"],
    ["zeroing what is cut off"],
    ["in lvreduce, not committed", "in lvreduce, committed", "reduced, not told yet"],
    ["between steps", "shrunk"],
  ],
  limitMs: 3_600_000,
});
