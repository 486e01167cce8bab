// The cut of a volume that holds data: what the kernel moves and clears runs under the older kernel, too, each time.
import { describeVmSuites, LVMD_MODULES } from "../vm/run-vm-suite.ts";

describeVmSuites({
  name: "lvmd on real LVM",
  parts: ["bundle"],
  modules: LVMD_MODULES,
  suites: [{ suite: "lvmd/reduce", claim: "cuts a volume only behind its filesystem", disks: "2G 1G 1G 2G" }],
  alsoUnderOlder: "of a mounted filesystem|leaves nothing of what was on it|of a thin volume gives",
});
