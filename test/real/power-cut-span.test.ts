// Power cuts while a span gets a member, grows it and gives it back under a writer that fsyncs, and while another one is formatted: it always
// has all of its devices, nothing acknowledged is lost, and every removal ends. As power-cut.test.ts; TIDEMARK_SEED repeats a plan.
import { describePowerCuts } from "../vm/power-cut/describe-power-cuts.ts";
import { SPANS } from "../vm/power-cut/span-plan.ts";

describePowerCuts({
  name: "power cuts of a span",
  list: "span-power-cuts",
  claim: (cuts) => `leave a span all of its devices and every acknowledged record whole, ${cuts} of them`,
  story: SPANS,
  cuts: { commit: 6, longRun: 70, olderKernel: 3 },
});
