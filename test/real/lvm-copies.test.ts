import { spawnSync } from "node:child_process";
import { expect, it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";

const LIMIT_MS = 780_000;

describeReal("snapshots and copies on a real thin pool", ["root", "uml"], () => {
  it(
    "keep every byte that was fsynced, for all filesystems",
    () => {
      const jest = ["node_modules/.bin/jest", "--roots", "test/vm", "--testMatch", "**/test/vm/lvm-copies.vm.ts"];
      const { status, stdout, stderr } = spawnSync("test/vm/run-in-vm.sh", ["8G", ...jest], {
        encoding: "utf8",
        env: {
          ...process.env,
          NODE_OPTIONS: "--experimental-vm-modules --disable-warning=ExperimentalWarning",
          VM_MODULES: "loop dm-mod dm-snapshot dm-thin-pool",
          VM_SECONDS: "720",
        },
        timeout: LIMIT_MS,
      });
      expect({ status, output: status === 0 ? "" : `${stdout}\n${stderr}` }).toEqual({ status: 0, output: "" });
      expect(stderr).toMatch(/Tests: +3 passed/);
    },
    LIMIT_MS,
  );
});
