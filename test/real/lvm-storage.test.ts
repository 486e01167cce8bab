import { it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";
import { runVmSuite, VM_SUITE_LIMIT_MS } from "../vm/run-vm-suite.ts";

const TESTS = 33;
const MODULES = "loop dm-mod dm-thin-pool";

describeReal("the agent's storage on real LVM", ["root", "device-mapper", "uml"], () => {
  it(
    "keeps the contract and every byte, thick and thin",
    () => runVmSuite({ suite: "lvm-storage", disks: "10G 10G", modules: MODULES, tests: TESTS }),
    VM_SUITE_LIMIT_MS,
  );
});
