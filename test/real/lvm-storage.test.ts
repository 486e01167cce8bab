import { describeVmSuites } from "../vm/run-vm-suite.ts";

describeVmSuites({
  name: "the agent's storage on real LVM",

  modules: "loop dm-mod dm-thin-pool",
  suites: [
    { suite: "lvm-storage", claim: "keeps the contract and every byte, thick and thin", disks: "10G 10G", tests: 33 },
  ],
});
