// Power cuts while the agent writes its node records, on disks that lose or reorder what was not flushed: a record that was acknowledged is
// there, and none is torn. As power-cut.test.ts; TIDEMARK_SEED repeats a plan.
import { describePowerCuts } from "../vm/power-cut/describe-power-cuts.ts";
import { RECORDED } from "../vm/power-cut/record-plan.ts";

describePowerCuts({
  name: "power cuts of node records",
  list: "record-power-cuts",
  claim: (cuts) => `lose no acknowledged record and leave none torn, ${cuts} of them`,
  story: RECORDED,
  cuts: { commit: 4, longRun: 50, olderKernel: 5 },
});
