// Commands that a former lvmd has begun and that still run: what such a one may yet do is not in any report.
import { isBegunHere, type RunningCommand, runningCommands } from "../../process/running-commands.ts";
import { BLKDISCARD } from "./zero-volume.ts";

const LVREDUCE = "lvreduce";

/** The command line of a process that is about to make this volume smaller; undefined: there is none. */
export function findLeftoverReduce(group: string, name: string): string | undefined {
  return findCommand(({ words }) => words.includes(LVREDUCE) && words.includes(`${group}/${name}`));
}

/** Of one that still zeroes or discards what was to be cut off this device, by the kernel's path of it. */
export function findLeftoverClearing(kernelPath: string): string | undefined {
  return findCommand(({ words }) => words.includes(BLKDISCARD) && words.includes(kernelPath));
}

/** Of one of both on whatever volume that this lvmd has not begun. */
export function findLeftoverOfAny(): string | undefined {
  return findCommand(
    ({ pid, words }) => (isOnSomething(words, LVREDUCE) || isOnSomething(words, BLKDISCARD)) && !isBegunHere(pid),
  );
}

/** Behind the command there is a volume or a device: who only speaks of it is none. */
function isOnSomething(words: readonly string[], command: string): boolean {
  const at = words.indexOf(command);
  return at >= 0 && words.slice(at + 1).some((word) => word.includes("/"));
}

function findCommand(isSought: (running: RunningCommand) => boolean): string | undefined {
  for (const running of runningCommands())
    if (isSought(running)) return `${running.words.join(" ").trim()} (process ${running.pid})`;
  return undefined;
}
