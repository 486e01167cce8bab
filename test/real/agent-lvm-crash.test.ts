import { it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";
import { NEWER_KERNEL } from "../vm/kernels.ts";
import { runVmSuite, VM_SUITE_LIMIT_MS } from "../vm/run-vm-suite.ts";

const TESTS = 11;
const MODULES = "loop dm-mod dm-snapshot dm-thin-pool";

// What the agent does is the same under either kernel.
const { environment, parts } = NEWER_KERNEL;

describeReal("an agent that is killed over real LVM", ["root", "device-mapper", "bundle", ...parts], () => {
  it(
    "is followed by one that finishes, wherever it was",
    () => runVmSuite({ suite: "agent-lvm-crash", disks: "8G 4G", modules: MODULES, tests: TESTS, environment }),
    VM_SUITE_LIMIT_MS,
  );
});
