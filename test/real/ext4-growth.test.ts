import { it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";
import { runVmSuite, VM_SUITE_LIMIT_MS } from "../vm/run-vm-suite.ts";

describeReal("ext4 under a kernel that lets it grow while it is mounted", ["root", "uml"], () => {
  it(
    "grows under a writer without losing a byte",
    () => runVmSuite({ suite: "ext4-grows", disks: "1G", modules: "loop", tests: 1 }),
    VM_SUITE_LIMIT_MS,
  );
});
