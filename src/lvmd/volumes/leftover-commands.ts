// Commands that a former lvmd has begun and that still run: what such a one may yet do is not in any report.
import { readdirSync, readFileSync } from "node:fs";
import { BLKDISCARD } from "./zero-volume.ts";

/** The command line of a process that is about to make this volume smaller; undefined: there is none. */
export function findLeftoverReduce(group: string, name: string): string | undefined {
  return findCommand("lvreduce", `${group}/${name}`);
}

/** Of one that still zeroes what was to be cut off this device, by the kernel's path of it. */
export function findLeftoverZeroing(kernelPath: string): string | undefined {
  return findCommand(BLKDISCARD, kernelPath);
}

function findCommand(command: string, target: string): string | undefined {
  for (const pid of readdirSync("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    const words = commandLine(pid);
    if (words.includes(command) && words.includes(target)) return `${words.join(" ").trim()} (process ${pid})`;
  }
  return undefined;
}

function commandLine(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch {
    return []; // ended meanwhile
  }
}
