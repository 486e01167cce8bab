import { describeVmSuites } from "../vm/run-vm-suite.ts";

describeVmSuites({
  name: "hostile shrinks",
  modules: "loop btrfs",
  suites: [
    { suite: "hostile-shrinks", claim: "leave every filesystem writable and every byte whole", disks: "1G", tests: 1 },
  ],
});
