import { spawnSync } from "node:child_process";
import { expect, it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";
import { KERNELS } from "../vm/kernels.ts";

const LIMIT_MS = 1_200_000;
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
const ONLY_UNDER_NEWER = ["many", "kill"];

for (const { name: kernel, environment, parts } of KERNELS)
  describeReal(`lvmd on real LVM, under the kernel ${kernel}`, ["root", "device-mapper", "bundle", ...parts], () => {
    const isNewer = parts.includes("newer-uml");
    it.each(SUITES.filter(([suite]) => isNewer || !ONLY_UNDER_NEWER.includes(suite)))(
      "passes its suite %s",
      (suite, disks) => {
        const pattern = `**/test/vm/lvmd/${suite}.vm.ts`;
        const jest = ["node_modules/.bin/jest", "--roots", "test/vm", "--testMatch", pattern];
        const { status, stdout, stderr } = spawnSync("test/vm/run-in-vm.sh", [disks, ...jest], {
          encoding: "utf8",
          env: {
            ...process.env,
            ...environment,
            CI: "true", // nobody watches: no progress
            NODE_OPTIONS: "--experimental-vm-modules --disable-warning=ExperimentalWarning",
            VM_MODULES: MODULES,
            VM_SECONDS: String(LIMIT_MS / 1000),
          },
          timeout: LIMIT_MS,
        });
        expect({ status, output: status === 0 ? "" : `${stdout}\n${stderr}` }).toEqual({ status: 0, output: "" });
        expect(stderr).toMatch(/Tests: +\d+ passed, \d+ total/);
      },
      LIMIT_MS,
    );
  });
