import { spawnSync } from "node:child_process";
import { expect, it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";
import { KERNELS } from "../vm/kernels.ts";

const LIMIT_MS = 1_260_000;
const TESTS = 7;

// Of the two kernels the one that is twice as fast: LVM and e2fsprogs are the same, and of the kernel only device-mapper takes part.
const [kernel] = KERNELS.slice(-1);

if (kernel !== undefined)
  describeReal("an ext4 in a thin pool on real LVM", ["root", "device-mapper", "bundle", ...kernel.parts], () => {
    it(
      "is made smaller while it is unmounted, or is as it was",
      () => {
        const jest = ["node_modules/.bin/jest", "--roots", "test/vm", "--testMatch", "**/test/vm/ext4-offline.vm.ts"];
        const { status, stdout, stderr } = spawnSync("test/vm/run-in-vm.sh", ["4G", ...jest], {
          encoding: "utf8",
          env: {
            ...process.env,
            ...kernel.environment,
            CI: "true", // nobody watches: no progress
            NODE_OPTIONS: "--experimental-vm-modules --disable-warning=ExperimentalWarning",
            VM_MODULES: "loop dm-mod dm-thin-pool dm-snapshot",
            VM_SECONDS: "1200",
          },
          timeout: LIMIT_MS,
        });
        expect({ status, output: status === 0 ? "" : `${stdout}\n${stderr}` }).toEqual({ status: 0, output: "" });
        expect(stderr).toMatch(new RegExp(`Tests: +${TESTS} passed`));
      },
      LIMIT_MS,
    );
  });
