// Power cuts while the ext4 of an unmounted thin volume is made smaller on real LVM, and while that is taken back: nothing acknowledged is
// lost, the filesystem is whole, and each is ended without anybody's help. As power-cut.test.ts; TIDEMARK_SEED repeats a plan.
import { describePowerCuts } from "../vm/power-cut/describe-power-cuts.ts";
import { UNMOUNTED_SHRINKS, type UnmountedPhase } from "../vm/power-cut/unmounted-shrink-plan.ts";

describePowerCuts<UnmountedPhase>({
  name: "power cuts of unmounted shrinks",
  claim: (cuts) => `leave every filesystem and every acknowledged record whole, ${cuts} of each of two volumes`,
  story: UNMOUNTED_SHRINKS,
  cuts: { newer: 12, older: 3 },
  // Those that take a few milliseconds share a line.
  hit: [
    ["before the snapshot"],
    ["being resized"],
    ["being taken back"],
    ["resized, not proven", "proven, not reduced", "reduced, not ended"],
    ["ended"],
  ],
  limitMs: 1_800_000,
});
