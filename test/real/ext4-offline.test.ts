import { describeVmSuites } from "../vm/run-vm-suite.ts";

describeVmSuites({
  name: "an ext4 in a thin pool on real LVM",
  parts: ["bundle"],
  modules: "loop dm-mod dm-thin-pool dm-snapshot",
  suites: [
    { suite: "ext4-offline", claim: "is made smaller while it is unmounted, or is as it was", disks: "4G", tests: 7 },
  ],
});
