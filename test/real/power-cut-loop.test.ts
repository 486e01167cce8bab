// Power cuts while a volume of the backend loop shrinks and grows under a writer that fsyncs: its filesystem always ends within its file, and
// nothing acknowledged is lost. As power-cut.test.ts; TIDEMARK_SEED repeats a plan.

import { describePowerCuts } from "../vm/power-cut/describe-power-cuts.ts";
import { LOOP_VOLUMES } from "../vm/power-cut/loop-plan.ts";

describePowerCuts({
  name: "power cuts of a loop volume",
  list: "loop-power-cuts",
  claim: (cuts) => `leave its filesystem within its file and every acknowledged record whole, ${cuts} of them`,
  story: LOOP_VOLUMES,
  cuts: { commit: 4, longRun: 50, olderKernel: 3 },
});
