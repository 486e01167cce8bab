// The real lvm(8), which sees the physical volumes of this ground and nothing else, and activates nothing.
import { type SpawnSyncReturns, spawnSync } from "node:child_process";
import { readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { attachedLoops, attachLoop } from "./loop-devices.ts";
import type { LoopGroundPlaces } from "./places.ts";

const OUTPUT_LIMIT_BYTES = 256 * 1024 * 1024;
/** What LVM says of every command here, and would not say where it activates volumes. */
const WITHOUT_ACTIVATION = /^ *WARNING: (Activation disabled|Skipping zeroing|Logical volume \S+ not zeroed).*\n/gm;

export type FinishedLvm = Pick<SpawnSyncReturns<string>, "status" | "stdout" | "stderr">;

/** True: a device was attached that was not, as after a power cut. */
export function attachGroups(places: LoopGroundPlaces): boolean {
  const attached = attachedLoops();
  const files = readdirSync(places.groups).map((name) => join(places.groups, name));
  const missing = files.filter((file) => !attached.has(file));
  if (missing.length === 0) return false;
  for (const file of missing) attached.set(file, attachLoop(file));
  writeSettings(
    places,
    files.map((file) => attached.get(file) ?? ""),
  );
  return true;
}

function writeSettings({ directory }: LoopGroundPlaces, devices: readonly string[]): void {
  const accepted = devices.map((device) => `"a|^${device}$|"`);
  const settings = `devices {
  dir = "/dev"
  scan = [ "/dev" ]
  use_devicesfile = 0
  obtain_device_list_from_udev = 0
  global_filter = [ ${[...accepted, '"r|.*|"'].join(", ")} ]
}
global {
  activation = 0
  event_activation = 0
  # Each command would end with 30 ms of waiting for the kernel to give up its queue.
  use_aio = 0
  locking_dir = "${join(directory, "locks")}"
}
`;
  const path = join(directory, "lvm.conf");
  writeFileSync(`${path}.new`, settings);
  renameSync(`${path}.new`, path);
}

export function runLvm({ directory }: LoopGroundPlaces, command: readonly string[]): FinishedLvm {
  const { status, stdout, stderr, error } = spawnSync("/usr/sbin/lvm", command, {
    encoding: "utf8",
    maxBuffer: OUTPUT_LIMIT_BYTES,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, LVM_SYSTEM_DIR: directory, LVM_SUPPRESS_FD_WARNINGS: "1", LC_ALL: "C" },
  });
  if (error !== undefined) throw error;
  return { status, stdout, stderr: stderr.replaceAll(WITHOUT_ACTIVATION, "") };
}
