import { it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";
import { runVmSuite, VM_SUITE_LIMIT_MS } from "../vm/run-vm-suite.ts";

const TESTS = 7;
const MODULES = "loop dm-mod dm-thin-pool";

describeReal("the stack on real thin pools", ["root", "device-mapper", "uml", "bundle"], () => {
  it(
    "keeps them from filling silently, whoever dies, and gives back what is not held",
    () => runVmSuite({ suite: "thin-pool", disks: "640M 512M 12G 4G 3G", modules: MODULES, tests: TESTS }),
    VM_SUITE_LIMIT_MS,
  );
});
