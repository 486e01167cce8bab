// How a suite of test/vm is run by its test in test/real: bundled, by a jest of its own in a virtual machine of its own, which must end well.
import { spawnSync } from "node:child_process";
import { expect, it } from "@jest/globals";
import { describeReal, type RealPart } from "../harness/real-parts.ts";
import { commitCount, SAMPLE_VARIABLE, takesAll } from "../harness/sample.ts";
import { bundleSuite } from "./bundle-suite.ts";
import { kernelsOfRun, OLDER_KERNEL, type VmKernel } from "./kernels.ts";

/** lvmd's suites ask LVM for all that a device class may name. */
export const LVMD_MODULES = "dm-mod dm-thin-pool dm-snapshot dm-mirror dm-raid raid1 raid10 raid456 loop";
/** All passages, and the older kernel, which is half as fast, take longer. */
const MACHINE_LIMIT_SECONDS = takesAll() ? 7200 : 1200;
/** More than the machine has, which says how far it came. */
const SUITE_LIMIT_MS = (MACHINE_LIMIT_SECONDS + 60) * 1000;

export interface VmSuite {
  /** Below test/vm, without its ending: "thin-pool", "lvmd/kill". */
  readonly suite: string;
  /** What it proves: the name of its test. */
  readonly claim: string;
  /** Their sizes: "4G 1G". */
  readonly disks: string;
  /** As the kernel's `mem=`; half of it is the most that /dev/shm takes. Absent: "2048M". */
  readonly memory?: string;
  /** How many must pass: fewer are never run by mistake. Absent: some. */
  readonly tests?: number;
}

export interface VmSuites {
  readonly name: string;
  /** Beside those of every virtual machine with device-mapper. */
  readonly parts?: readonly RealPart[];
  /** As modprobe names them. */
  readonly modules: string;
  readonly suites: readonly VmSuite[];
  /** Absent: those of the run. */
  readonly kernels?: readonly VmKernel[];
  /** A pattern of the names of cases that run under the older kernel, too, each time. Absent: in the long run alone. */
  readonly alsoUnderOlder?: string;
}

/** One after the other, under each kernel of the run. */
export function describeVmSuites({ name, parts = [], modules, suites, kernels, alsoUnderOlder }: VmSuites): void {
  const runs = (kernels ?? kernelsOfRun()).map((kernel) => ({ kernel, cases: undefined as string | undefined }));
  if (alsoUnderOlder !== undefined && !takesAll()) runs.push({ kernel: OLDER_KERNEL, cases: alsoUnderOlder });
  for (const { kernel, cases } of runs)
    describeReal(
      `${name}, under the kernel ${kernel.name}`,
      ["root", "device-mapper", ...parts, ...kernel.parts],
      () => {
        it.each(suites)("$claim", (suite) => runVmSuite(suite, modules, kernel, cases), SUITE_LIMIT_MS);
      },
    );
}

/** Fails with all that was said inside. */
async function runVmSuite(
  { suite, disks, memory, tests }: VmSuite,
  modules: string,
  kernel: VmKernel,
  cases: string | undefined,
): Promise<void> {
  const bundled = await bundleSuite(suite);
  const jest = ["node_modules/.bin/jest", ...bundled.arguments];
  if (cases !== undefined) jest.push("--testNamePattern", cases);
  const { status, stdout, stderr } = spawnSync("test/vm/run-in-vm.sh", [disks, ...jest], {
    encoding: "utf8",
    env: {
      ...process.env,
      ...kernel.environment,
      CI: "true", // nobody watches: no progress
      NODE_OPTIONS: "--experimental-vm-modules --disable-warning=ExperimentalWarning",
      [SAMPLE_VARIABLE]: takesAll() ? "all" : String(commitCount()),
      ...(memory === undefined ? {} : { VM_MEMORY: memory }),
      VM_MODULES: modules,
      VM_SECONDS: String(MACHINE_LIMIT_SECONDS),
    },
    timeout: SUITE_LIMIT_MS,
  });
  bundled.remove();
  expect({ status, output: status === 0 ? "" : `${stdout}\n${stderr}` }).toEqual({ status: 0, output: "" });
  const passed = cases === undefined ? (tests ?? "\\d+") : "(\\d+ skipped, )?\\d+";
  expect(stderr).toMatch(new RegExp(`Tests: +${passed} passed, \\d+ total`));
}
