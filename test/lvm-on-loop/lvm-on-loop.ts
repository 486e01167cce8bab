// LVM for tests on a machine without device-mapper: real commands on real metadata, and a loop device for each linear volume. Its
// directory is the whole of it; thin pools and snapshots it does not have.
import { mkdirSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { loopDevicesUnder } from "../../demo/show/run/mount-table.ts";
import { runProgram } from "../cluster/run-program.ts";

const PROGRAM = fileURLToPath(new URL("lvm-on-loop.sh", import.meta.url));

export interface LvmOnLoop {
  readonly directory: string;
  /** lvmd's lvm-command-prefix: a command line that goes on with LVM's command begins with this program. */
  readonly command: string;
  /** A command of LVM, "lvs" for one; its stdout. */
  lvm(...command: readonly string[]): Promise<string>;
  /** Makes a volume group. Its name is one of the whole machine, unless /dev/NAME is not. */
  addGroup(name: string, sizeBytes: number): Promise<void>;
  /** Detaches and deletes everything; what is mounted must be unmounted before. */
  remove(): Promise<void>;
}

/**
 * In a directory which is made, on a filesystem with room for the data. `enter`: the beginning of a command line that runs the rest
 * of it where the volumes are to be used; it has the directory at the same path.
 */
export async function createLvmOnLoop(directory: string, enter: readonly string[] = []): Promise<LvmOnLoop> {
  for (const name of ["groups", "volumes"]) mkdirSync(join(directory, name), { recursive: true });
  const command = join(directory, "lvm-on-loop");
  // It knows its directory by the path that is the same for every mount namespace.
  writeFileSync(command, `#!/bin/sh\nexec '${PROGRAM}' '${directory}' "$@"\n`, { mode: 0o755 });
  const groups: string[] = [];
  const lvm = (...words: readonly string[]): Promise<string> => {
    const [first = "", ...args] = [...enter, command, ...words];
    return runProgram(first, args);
  };
  return {
    directory,
    command,
    lvm,
    addGroup: async (name, sizeBytes) => {
      const file = join(directory, "groups", `${name}.img`);
      writeFileSync(file, "");
      truncateSync(file, sizeBytes);
      groups.push(name);
      await lvm("version"); // attaches it
      const device = loopDevicesUnder(file)[0] ?? "";
      // LVM takes no name that /dev has, and there it may stand for a directory that a node was given for this very group.
      await lvm("vgcreate", "--config", `devices/dir="${directory}"`, "--quiet", "--yes", name, device);
    },
    remove: async () => {
      for (const device of loopDevicesUnder(directory)) await runProgram("losetup", ["--detach", device]);
      for (const name of groups) rmSync(join("/dev", name), { recursive: true, force: true });
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
