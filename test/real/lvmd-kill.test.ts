import { describeVmSuites, LVMD_MODULES } from "../vm/run-vm-suite.ts";

describeVmSuites({
  name: "lvmd on real LVM",
  parts: ["bundle"],
  modules: LVMD_MODULES,
  suites: [{ suite: "lvmd/kill", claim: "finishes what it was killed in the middle of", disks: "2G 2G" }],
});
