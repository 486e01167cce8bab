import { spawnSync } from "node:child_process";
import { expect, it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";
import { KERNELS } from "../vm/kernels.ts";

const LIMIT_MS = 1_200_000;
const TESTS = 10;
/** What the agent does is the same under either, and this one is twice as fast. */
const NEWER = KERNELS.at(-1);

describeReal("an agent that is killed over real LVM", ["root", "device-mapper", ...(NEWER?.parts ?? [])], () => {
  it(
    "is followed by one that finishes, wherever it was",
    () => {
      const pattern = ["--testMatch", "**/test/vm/agent-lvm-crash.vm.ts"];
      const jest = ["node_modules/.bin/jest", "--roots", "test/vm", ...pattern];
      const { status, stdout, stderr } = spawnSync("test/vm/run-in-vm.sh", ["8G 4G", ...jest], {
        encoding: "utf8",
        env: {
          ...process.env,
          ...NEWER?.environment,
          CI: "true", // nobody watches: no progress
          NODE_OPTIONS: "--experimental-vm-modules --disable-warning=ExperimentalWarning",
          VM_MODULES: "loop dm-mod dm-snapshot dm-thin-pool",
          VM_SECONDS: String(LIMIT_MS / 1000),
        },
        timeout: LIMIT_MS,
      });
      expect({ status, output: status === 0 ? "" : `${stdout}\n${stderr}` }).toEqual({ status: 0, output: "" });
      expect(stderr).toMatch(new RegExp(`Tests: +${TESTS} passed`));
    },
    LIMIT_MS,
  );
});
