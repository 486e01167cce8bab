import { describeVmSuites } from "../vm/run-vm-suite.ts";

describeVmSuites({
  name: "ext4 that grows while it is mounted",

  modules: "loop",
  suites: [{ suite: "ext4-grows", claim: "grows under a writer without losing a byte", disks: "1G", tests: 1 }],
});
