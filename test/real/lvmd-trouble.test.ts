import { describeVmSuites, LVMD_MODULES } from "../vm/run-vm-suite.ts";

describeVmSuites({
  name: "lvmd on real LVM",
  parts: ["bundle"],
  modules: LVMD_MODULES,
  suites: [
    { suite: "lvmd/bad-input", claim: "refuses bad input, and does nothing", disks: "1G" },
    { suite: "lvmd/trouble", claim: "says what is wrong with LVM", disks: "1G" },
    { suite: "lvmd/many", claim: "serves many volumes and callers", disks: "3G 1G" },
  ],
});
