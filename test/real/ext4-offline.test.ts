import { it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";
import { KERNELS } from "../vm/kernels.ts";
import { runVmSuite, VM_SUITE_LIMIT_MS } from "../vm/run-vm-suite.ts";

const TESTS = 7;
const MODULES = "loop dm-mod dm-thin-pool dm-snapshot";

// Of the two kernels the one that is twice as fast: LVM and e2fsprogs are the same, and of the kernel only device-mapper takes part.
const [kernel] = KERNELS.slice(-1);

if (kernel !== undefined)
  describeReal("an ext4 in a thin pool on real LVM", ["root", "device-mapper", "bundle", ...kernel.parts], () => {
    const { environment } = kernel;
    it(
      "is made smaller while it is unmounted, or is as it was",
      () => runVmSuite({ suite: "ext4-offline", disks: "4G", modules: MODULES, tests: TESTS, environment }),
      VM_SUITE_LIMIT_MS,
    );
  });
