import { describeVmSuites, LVMD_MODULES } from "../vm/run-vm-suite.ts";

describeVmSuites({
  name: "hostile shrinks",
  modules: `${LVMD_MODULES} btrfs`,
  suites: [
    {
      suite: "hostile-shrinks",
      claim: "leave every filesystem writable and every byte whole",
      disks: "1G",
      memory: "8G",
      tests: 1,
    },
    {
      suite: "hostile-shrinks-span",
      claim: "leave every span writable and every byte whole",
      disks: "1G",
      memory: "8G",
      tests: 1,
    },
    {
      suite: "hostile-shrinks-lvm",
      claim: "leave every logical volume's filesystem writable and every byte whole",
      disks: "4G 4G",
      tests: 2,
    },
  ],
});
