import { describeVmSuites, LVMD_MODULES } from "../vm/run-vm-suite.ts";

describeVmSuites({
  name: "lvmd on real LVM",
  parts: ["bundle"],
  modules: LVMD_MODULES,
  suites: [
    { suite: "lvmd/thick", claim: "serves thick volumes", disks: "2G 1G 1G 1G 1G 2G" },
    { suite: "lvmd/thin", claim: "serves thin volumes and their pools", disks: "2G 1G 2G" },
  ],
});
