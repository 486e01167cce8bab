import { it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";
import { KERNELS } from "../vm/kernels.ts";
import { runVmSuite, VM_SUITE_LIMIT_MS } from "../vm/run-vm-suite.ts";

const TESTS = 10;
const MODULES = "loop dm-mod dm-snapshot dm-thin-pool";
/** What the agent does is the same under either, and this one is twice as fast. */
const NEWER = KERNELS.at(-1);

describeReal("an agent that is killed over real LVM", ["root", "device-mapper", ...(NEWER?.parts ?? [])], () => {
  it(
    "is followed by one that finishes, wherever it was",
    () => {
      const { environment } = NEWER ?? {};
      runVmSuite({
        suite: "agent-lvm-crash",
        disks: "8G 4G",
        modules: MODULES,
        tests: TESTS,
        ...(environment && { environment }),
      });
    },
    VM_SUITE_LIMIT_MS,
  );
});
