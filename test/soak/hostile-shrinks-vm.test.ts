import { describeVmSuites } from "../vm/run-vm-suite.ts";

describeVmSuites({
  name: "hostile shrinks",
  modules: "loop btrfs",
  suites: [
    {
      suite: "hostile-shrinks",
      claim: "leave every filesystem writable and every byte whole",
      disks: "1G",
      memory: "8G",
      tests: 1,
    },
  ],
});
