// The loop devices over files of this machine, as the kernel tells them; attached, resized and detached by losetup.
import { execFileSync } from "node:child_process";
import { closeSync, constants, openSync, readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";

/** Devices by the path of the file behind them. One that is detached as soon as its last user closes it is none. */
export function attachedLoops(): Map<string, string> {
  const names = readdirSync("/sys/block").filter((name) => name.startsWith("loop"));
  const attached = names.filter((name) => readLoopFile(name, "autoclear") === "0");
  return new Map(attached.map((name) => [readLoopFile(name, "backing_file"), `/dev/${name}`]));
}

function readLoopFile(name: string, file: "backing_file" | "autoclear"): string {
  try {
    return readFileSync(`/sys/block/${name}/loop/${file}`, "utf8").trim();
  } catch {
    return ""; // not attached
  }
}

export function attachLoop(path: string): string {
  return losetup("--find", "--show", "--nooverlap", path).trim();
}

/** It has the size of its file then; whatever uses it goes on. */
export function refreshLoop(device: string): void {
  losetup("--set-capacity", device);
}

/** One in use goes with its last user. */
export function detachLoop(device: string): void {
  losetup("--detach", device);
}

/** A mounted filesystem holds its device for itself. */
export function isHeld(device: string): boolean {
  try {
    closeSync(openSync(device, constants.O_RDONLY | constants.O_EXCL));
    return false;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EBUSY") throw error;
    return true;
  }
}

export function deviceNumber(device: string): { major: number; minor: number } {
  const [major = Number.NaN, minor = Number.NaN] = readFileSync(`/sys/block/${basename(device)}/dev`, "utf8")
    .split(":")
    .map(Number);
  return { major, minor };
}

function losetup(...args: readonly string[]): string {
  return execFileSync("/usr/sbin/losetup", args, { encoding: "utf8" });
}
