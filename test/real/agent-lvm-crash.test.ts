import { describeVmSuites } from "../vm/run-vm-suite.ts";

describeVmSuites({
  name: "an agent that is killed over real LVM",
  parts: ["bundle"],
  modules: "loop dm-mod dm-snapshot dm-thin-pool",
  suites: [
    { suite: "agent-lvm-crash", claim: "is followed by one that finishes, wherever it was", disks: "8G 4G", tests: 12 },
  ],
});
