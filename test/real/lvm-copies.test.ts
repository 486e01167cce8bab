import { it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";
import { NEWER_KERNEL } from "../vm/kernels.ts";
import { runVmSuite, VM_SUITE_LIMIT_MS } from "../vm/run-vm-suite.ts";

const TESTS = 5;
const MODULES = "loop dm-mod dm-thin-pool dm-snapshot";

// Under the older kernel they take minutes each.
const { name: kernel, environment, parts } = NEWER_KERNEL;

describeReal(
  `snapshots and clones on a real thin pool, under the kernel ${kernel}`,
  ["root", "device-mapper", "bundle", ...parts],
  () => {
    it(
      "pass their suite",
      () => runVmSuite({ suite: "lvm-copies", disks: "12G", modules: MODULES, tests: TESTS, environment }),
      VM_SUITE_LIMIT_MS,
    );
  },
);
