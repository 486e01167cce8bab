import { it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";
import { NEWER_KERNEL } from "../vm/kernels.ts";
import { runVmSuite, VM_SUITE_LIMIT_MS } from "../vm/run-vm-suite.ts";

const TESTS = 7;
const MODULES = "loop dm-mod dm-thin-pool dm-snapshot";

// LVM and e2fsprogs are the same under either kernel, and of the kernel only device-mapper takes part.
const { environment, parts } = NEWER_KERNEL;

describeReal("an ext4 in a thin pool on real LVM", ["root", "device-mapper", "bundle", ...parts], () => {
  it(
    "is made smaller while it is unmounted, or is as it was",
    () => runVmSuite({ suite: "ext4-offline", disks: "4G", modules: MODULES, tests: TESTS, environment }),
    VM_SUITE_LIMIT_MS,
  );
});
