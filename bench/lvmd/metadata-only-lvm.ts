// LVM as the machine has it, on metadata alone: real commands and a real volume group on a loop device, of which nothing is activated.
// Its own settings and devices, beside whatever LVM the machine may have.
import { execFile } from "node:child_process";
import { mkdirSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { LvmdGround } from "../../test/harness/lvmd-process.ts";

const execute = promisify(execFile);
const GROUP_BYTES = 2 ** 36;

export interface MetadataOnlyLvm extends LvmdGround {
  lvm(...command: readonly string[]): Promise<string>;
  remove(): Promise<void>;
}

export async function createMetadataOnlyLvm(directory: string, group: string): Promise<MetadataOnlyLvm> {
  mkdirSync(directory, { recursive: true });
  const file = join(directory, "device.img");
  writeFileSync(file, "");
  truncateSync(file, GROUP_BYTES);
  const device = (await execute("losetup", ["--find", "--show", file])).stdout.trim();
  writeFileSync(join(directory, "lvm.conf"), settings(directory, device));
  const prefix = [
    "/usr/bin/env",
    `LVM_SYSTEM_DIR=${directory}`,
    "LVM_SUPPRESS_FD_WARNINGS=1",
    "/usr/sbin/lvm",
  ] as const;
  const lvm = async (...command: readonly string[]): Promise<string> =>
    (await execute(prefix[0], [...prefix.slice(1), ...command])).stdout;
  await lvm("vgcreate", "--quiet", "--yes", group, device);
  return {
    group,
    prefix,
    backupDirectory: join(directory, "backup"),
    lvm,
    remove: async () => {
      await execute("losetup", ["--detach", device]);
    },
  };
}

function settings(directory: string, device: string): string {
  return `devices {
  scan = [ "/dev" ]
  use_devicesfile = 0
  obtain_device_list_from_udev = 0
  global_filter = [ "a|^${device}$|", "r|.*|" ]
}
global {
  activation = 0
  event_activation = 0
  locking_dir = "${join(directory, "locks")}"
}
`;
}
