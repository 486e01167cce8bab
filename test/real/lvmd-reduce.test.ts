// The cut of a volume that holds data: under both kernels each time, since the kernel moves what the filesystem holds, and clears what is cut off.
import { BOTH_KERNELS } from "../vm/kernels.ts";
import { describeVmSuites, LVMD_MODULES } from "../vm/run-vm-suite.ts";

describeVmSuites({
  name: "lvmd on real LVM",
  parts: ["bundle"],
  kernels: BOTH_KERNELS,
  modules: LVMD_MODULES,
  suites: [{ suite: "lvmd/reduce", claim: "cuts a volume only behind its filesystem", disks: "2G 1G 1G 2G" }],
});
