import { describeVmSuites } from "../vm/run-vm-suite.ts";

describeVmSuites({
  name: "the stack on real thin pools",
  parts: ["bundle"],
  modules: "loop dm-mod dm-thin-pool",
  suites: [
    {
      suite: "thin-pool",
      claim: "keeps them from filling silently, whoever dies, and gives back what is not held",
      disks: "640M 512M 12G 4G 3G",
      tests: 7,
    },
  ],
});
