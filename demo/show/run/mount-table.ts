// What of a directory is mounted, and what backs loop devices: read from the kernel, so that it holds for any program that made it.
import { readdirSync, readFileSync } from "node:fs";

/** Mount points at or under the directory, the last mounted first: the order in which they can be unmounted. */
export function mountsUnder(directory: string, mountInfo = readFileSync("/proc/self/mountinfo", "utf8")): string[] {
  return mountInfo
    .split("\n")
    .map((line) => unescapeOctal(line.split(" ")[4] ?? ""))
    .filter((path) => isUnder(path, directory))
    .reverse();
}

/** Loop devices whose backing file is under the directory, deleted or not. */
export function loopDevicesUnder(directory: string, blockDirectory = "/sys/block"): string[] {
  return readdirSync(blockDirectory)
    .filter((name) => name.startsWith("loop"))
    .filter((name) => isUnder(backingFile(`${blockDirectory}/${name}/loop/backing_file`), directory))
    .map((name) => `/dev/${name}`);
}

function backingFile(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return ""; // not attached
  }
}

function isUnder(path: string, directory: string): boolean {
  return path === directory || path.startsWith(`${directory}/`);
}

// The kernel writes space, tab, newline and backslash as \040 and so on.
function unescapeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}
