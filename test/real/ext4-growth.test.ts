import { spawnSync } from "node:child_process";
import { expect, it } from "@jest/globals";
import { describeReal } from "../harness/real-parts.ts";

const LIMIT_MS = 420_000;

describeReal("ext4 under a kernel that lets it grow while it is mounted", ["root", "uml"], () => {
  it(
    "grows under a writer without losing a byte",
    () => {
      const jest = ["node_modules/.bin/jest", "--roots", "test/vm", "--testMatch", "**/test/vm/ext4-grows.vm.ts"];
      const { status, stdout, stderr } = spawnSync("test/vm/run-in-vm.sh", ["1G", ...jest], {
        encoding: "utf8",
        env: { ...process.env, NODE_OPTIONS: "--experimental-vm-modules --disable-warning=ExperimentalWarning" },
        timeout: LIMIT_MS,
      });
      expect({ status, output: status === 0 ? "" : `${stdout}\n${stderr}` }).toEqual({ status: 0, output: "" });
      expect(stderr).toMatch(/Tests: +1 passed/);
    },
    LIMIT_MS,
  );
});
