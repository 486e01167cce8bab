// Where this mount namespace shows a device: its filesystem, or the device itself as a file. Read from the kernel, so that it is
// true after a restart as well.
import { existsSync, mkdirSync, readFileSync, rmdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { runProgram } from "../cluster/run-program.ts";

export interface DeviceMount {
  readonly path: string;
  readonly block: boolean;
  /** Of this mount, not of the filesystem. */
  readonly readOnly: boolean;
}

/** Line format: proc_pid_mountinfo(5). */
export function mountsOfDevice(device: string): DeviceMount[] {
  return mountLines().flatMap(({ path, root, options, fsType, source }) => {
    const block = fsType === "devtmpfs" && root === `/${basename(device)}`;
    return block || source === device ? [{ path, block, readOnly: options.includes("ro") }] : [];
  });
}

/** Whatever is mounted there is unmounted, and the mount point removed. Idempotent. */
export async function unmountAt(path: string): Promise<void> {
  while (mountLines().some((mount) => mount.path === path)) await runProgram("umount", [path]);
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isDirectory() === true) rmdirSync(path);
  else rmSync(path, { force: true });
}

export async function mountFilesystem(device: string, path: string, fsType: string, flags: readonly string[]) {
  mkdirSync(path, { recursive: true });
  const options = flags.length === 0 ? [] : ["--options", flags.join(",")];
  await runProgram("mount", ["--types", fsType, ...options, device, path]);
}

/** Shows a device or a directory at another path as well. */
export async function bindAt(source: string, path: string, { block, readOnly }: Omit<DeviceMount, "path">) {
  mkdirSync(block ? dirname(path) : path, { recursive: true });
  if (block && !existsSync(path)) writeFileSync(path, "");
  await runProgram("mount", ["--bind", source, path]);
  if (readOnly) await runProgram("mount", ["--options", "remount,bind,ro", path]);
}

function mountLines() {
  return readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [head = "", tail = ""] = line.split(" - ");
      const [, , , root = "", path = "", options = ""] = head.split(" ").map(unescapeOctal);
      const [fsType = "", source = ""] = tail.split(" ").map(unescapeOctal);
      return { path, root, options: options.split(","), fsType, source };
    });
}

function unescapeOctal(text: string): string {
  return text.replaceAll(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}
