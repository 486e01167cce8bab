import { spawnSync } from "node:child_process";
import { expect, it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";

const LIMIT_MS = 1_260_000;
const TESTS = 7;

describeReal("the stack on real thin pools", ["root", "device-mapper", "uml", "bundle"], () => {
  it(
    "keeps them from filling silently, whoever dies, and gives back what is not held",
    () => {
      const pattern = ["--testMatch", "**/test/vm/thin-pool.vm.ts"];
      const jest = ["node_modules/.bin/jest", "--roots", "test/vm", ...pattern];
      const { status, stdout, stderr } = spawnSync("test/vm/run-in-vm.sh", ["640M 512M 12G 4G 3G", ...jest], {
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
