import { it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";
import { NEWER_KERNEL } from "../vm/kernels.ts";
import { runVmSuite, VM_SUITE_LIMIT_MS } from "../vm/run-vm-suite.ts";

const TESTS = 33;
const MODULES = "loop dm-mod dm-thin-pool";

// Under the older kernel, where thin-pool.test.ts has the agent at work, it takes twice as long.
const { environment, parts } = NEWER_KERNEL;

describeReal("the agent's storage on real LVM", ["root", "device-mapper", ...parts], () => {
  it(
    "keeps the contract and every byte, thick and thin",
    () => runVmSuite({ suite: "lvm-storage", disks: "10G 10G", modules: MODULES, tests: TESTS, environment }),
    VM_SUITE_LIMIT_MS,
  );
});
