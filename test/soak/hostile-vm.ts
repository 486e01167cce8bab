// Hostile shrinks in virtual machines: one suite for each kernel and ground, so that each ends within the time of a long run.
import { NEWER_KERNEL, OLDER_KERNEL } from "../vm/kernels.ts";
import { describeVmSuites, LVMD_MODULES, type VmSuite } from "../vm/run-vm-suite.ts";

const KERNELS = { newer: NEWER_KERNEL, older: OLDER_KERNEL } as const;
const SUITES = {
  loop: {
    suite: "hostile-shrinks",
    claim: "leave every filesystem writable and every byte whole",
    disks: "1G",
    memory: "8G",
    tests: 1,
  },
  span: {
    suite: "hostile-shrinks-span",
    claim: "leave every span writable and every byte whole",
    disks: "1G",
    memory: "8G",
    tests: 1,
  },
  lvm: {
    suite: "hostile-shrinks-lvm",
    claim: "leave every logical volume's filesystem writable and every byte whole",
    disks: "4G 4G",
    tests: 2,
  },
} as const satisfies Record<string, VmSuite>;

export function describeHostileShrinks(ground: keyof typeof SUITES, kernel: keyof typeof KERNELS): void {
  describeVmSuites({
    name: "hostile shrinks",
    modules: `${LVMD_MODULES} btrfs`,
    suites: [SUITES[ground]],
    kernels: [KERNELS[kernel]],
  });
}
