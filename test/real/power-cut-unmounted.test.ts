// Power cuts while the ext4 of an unmounted thin volume is made smaller on real LVM, and while that is taken back: nothing acknowledged is
// lost, the filesystem is whole, and each is ended without anybody's help. As power-cut.test.ts; TIDEMARK_SEED repeats a plan.
import { describePowerCuts } from "../vm/power-cut/describe-power-cuts.ts";
import { UNMOUNTED_SHRINKS } from "../vm/power-cut/unmounted-shrink-plan.ts";

describePowerCuts({
  name: "power cuts of unmounted shrinks",
  list: "unmounted-power-cuts",
  claim: (cuts) => `leave every filesystem and every acknowledged record whole, ${cuts} of each of two volumes`,
  story: UNMOUNTED_SHRINKS,
  cuts: { commit: 4, longRun: 35, olderKernel: 3 },
});
