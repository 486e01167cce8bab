// Commands that a former lvmd has begun and that still run: what such a one may yet do is not in any report.
import { runningCommands } from "../../process/running-commands.ts";
import { BLKDISCARD } from "./zero-volume.ts";

/** The command line of a process that is about to make this volume smaller; undefined: there is none. */
export function findLeftoverReduce(group: string, name: string): string | undefined {
  return findCommand("lvreduce", `${group}/${name}`);
}

/** Of one that still zeroes or discards what was to be cut off this device, by the kernel's path of it. */
export function findLeftoverClearing(kernelPath: string): string | undefined {
  return findCommand(BLKDISCARD, kernelPath);
}

function findCommand(command: string, target: string): string | undefined {
  for (const { pid, words } of runningCommands())
    if (words.includes(command) && words.includes(target)) return `${words.join(" ").trim()} (process ${pid})`;
  return undefined;
}
