import { it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";
import { KERNELS } from "../vm/kernels.ts";
import { runVmSuite, VM_SUITE_LIMIT_MS } from "../vm/run-vm-suite.ts";

const MODULES = "dm-mod dm-thin-pool dm-snapshot dm-mirror dm-raid raid1 raid10 raid456 loop";

/** With the sizes of their disks. */
const SUITES: readonly (readonly [name: string, disks: string])[] = [
  ["thick", "2G 1G 1G 1G 1G 2G"],
  ["thin", "2G 1G 2G"],
  ["bad-input", "1G"],
  ["reduce", "2G 1G 1G 2G"],
  ["trouble", "1G"],
  ["many", "3G 1G"],
  ["kill", "2G 2G"],
];
/** Of lvmd alone, whatever the kernel; under the older one, which is half as fast, they take minutes each. */
const ONLY_UNDER_NEWER = ["bad-input", "trouble", "many", "kill"];

for (const { name: kernel, environment, parts } of KERNELS)
  describeReal(`lvmd on real LVM, under the kernel ${kernel}`, ["root", "device-mapper", "bundle", ...parts], () => {
    const isNewer = parts.includes("newer-uml");
    it.each(SUITES.filter(([suite]) => isNewer || !ONLY_UNDER_NEWER.includes(suite)))(
      "passes its suite %s",
      (name, disks) => runVmSuite({ suite: `lvmd/${name}`, disks, modules: MODULES, environment }),
      VM_SUITE_LIMIT_MS,
    );
  });
