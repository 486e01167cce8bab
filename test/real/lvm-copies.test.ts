import { describeVmSuites } from "../vm/run-vm-suite.ts";

describeVmSuites({
  name: "snapshots and clones on a real thin pool",
  parts: ["bundle"],
  modules: "loop dm-mod dm-thin-pool dm-snapshot",
  suites: [{ suite: "lvm-copies", claim: "pass their suite", disks: "12G", tests: 5 }],
});
