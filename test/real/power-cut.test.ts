// Power cuts while a filesystem shrinks on real LVM under a writer that fsyncs: nothing acknowledged is lost, and no volume is ever cut before
// its filesystem has left. A machine of its own is killed by SIGKILL, and boots again on the same disks. TIDEMARK_SEED repeats a plan.
import { describePowerCuts } from "../vm/power-cut/describe-power-cuts.ts";
import { SHRINKS } from "../vm/power-cut/shrink-plan.ts";

describePowerCuts({
  name: "power cuts",
  list: "power-cuts",
  claim: (cuts) =>
    `leave every filesystem within its volume and every acknowledged record whole, ${cuts} of each class`,
  story: SHRINKS,
  cuts: { commit: 12, longRun: 130, olderKernel: 5 },
});
