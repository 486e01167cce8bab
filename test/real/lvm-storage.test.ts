import { spawnSync } from "node:child_process";
import { expect, it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";

const LIMIT_MS = 1_260_000;
const TESTS = 33;

describeReal("the agent's storage on real LVM", ["root", "device-mapper", "uml"], () => {
  it(
    "keeps the contract and every byte, thick and thin",
    () => {
      const pattern = ["--testMatch", "**/test/vm/lvm-storage.vm.ts"];
      const jest = ["node_modules/.bin/jest", "--roots", "test/vm", ...pattern];
      const { status, stdout, stderr } = spawnSync("test/vm/run-in-vm.sh", ["10G 10G", ...jest], {
        encoding: "utf8",
        env: {
          ...process.env,
          NODE_OPTIONS: "--experimental-vm-modules --disable-warning=ExperimentalWarning",
          VM_MODULES: "loop dm-mod dm-thin-pool",
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
