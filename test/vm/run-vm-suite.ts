// How a suite of test/vm is run by its test in test/real: by a jest of its own in a virtual machine of its own, which must end well.
import { spawnSync } from "node:child_process";
import { expect } from "@jest/globals";

/** Of a test that runs one suite: more than the machine has, which says how far it came. */
export const VM_SUITE_LIMIT_MS = 1_260_000;
const MACHINE_LIMIT_SECONDS = 1200;

export interface VmSuite {
  /** Below test/vm, without its ending: "thin-pool", "lvmd/kill". */
  readonly suite: string;
  /** Their sizes: "4G 1G". */
  readonly disks: string;
  /** As modprobe names them. */
  readonly modules: string;
  /** How many must pass: fewer are never run by mistake. Absent: some. */
  readonly tests?: number;
  /** A kernel's, of kernels.ts. Absent: Debian stable's. */
  readonly environment?: Readonly<Record<string, string>>;
}

/** Fails with all that was said inside. */
export function runVmSuite({ suite, disks, modules, tests, environment = {} }: VmSuite): void {
  const jest = ["node_modules/.bin/jest", "--roots", "test/vm", "--testMatch", `**/test/vm/${suite}.vm.ts`];
  const { status, stdout, stderr } = spawnSync("test/vm/run-in-vm.sh", [disks, ...jest], {
    encoding: "utf8",
    env: {
      ...process.env,
      ...environment,
      CI: "true", // nobody watches: no progress
      NODE_OPTIONS: "--experimental-vm-modules --disable-warning=ExperimentalWarning",
      VM_MODULES: modules,
      VM_SECONDS: String(MACHINE_LIMIT_SECONDS),
    },
    timeout: VM_SUITE_LIMIT_MS,
  });
  expect({ status, output: status === 0 ? "" : `${stdout}\n${stderr}` }).toEqual({ status: 0, output: "" });
  expect(stderr).toMatch(new RegExp(`Tests: +${tests ?? "\\d+"} passed, \\d+ total`));
}
