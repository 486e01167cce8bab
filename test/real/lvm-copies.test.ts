import { spawnSync } from "node:child_process";
import { expect, it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";
import { KERNELS } from "../vm/kernels.ts";

const LIMIT_MS = 1_260_000;

interface Suite {
  readonly suite: string;
  readonly tests: number;
}

const SUITES: readonly Suite[] = [{ suite: "lvm-copies", tests: 5 }];

// Under the older kernel, which is half as fast, they take minutes each.
for (const { name: kernel, environment, parts } of KERNELS.filter(({ parts: some }) => some.includes("newer-uml")))
  describeReal(
    `snapshots and clones on a real thin pool, under the kernel ${kernel}`,
    ["root", "device-mapper", "bundle", ...parts],
    () => {
      it.each(SUITES)(
        "pass their suite $suite",
        ({ suite, tests }) => {
          const jest = ["node_modules/.bin/jest", "--roots", "test/vm", "--testMatch", `**/test/vm/${suite}.vm.ts`];
          const { status, stdout, stderr } = spawnSync("test/vm/run-in-vm.sh", ["12G", ...jest], {
            encoding: "utf8",
            env: {
              ...process.env,
              ...environment,
              CI: "true", // nobody watches: no progress
              NODE_OPTIONS: "--experimental-vm-modules --disable-warning=ExperimentalWarning",
              VM_MODULES: "loop dm-mod dm-thin-pool dm-snapshot",
              VM_SECONDS: "1200",
            },
            timeout: LIMIT_MS,
          });
          expect({ status, output: status === 0 ? "" : `${stdout}\n${stderr}` }).toEqual({ status: 0, output: "" });
          expect(stderr).toMatch(new RegExp(`Tests: +${tests} passed`));
        },
        LIMIT_MS,
      );
    },
  );
