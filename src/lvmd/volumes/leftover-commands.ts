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

/** Of one of both on whatever volume that an lvmd has begun, and not this one. */
export function findLeftoverOfAny(): string | undefined {
  return findCommand(({ pid, words }) => isAsLvmdWritesIt(words) && !isBegunHere(pid));
}

/** With the options that each lvmd gives, and something to work on: what a person has typed, and who only speaks of it, is no token's. */
function isAsLvmdWritesIt(words: readonly string[]): boolean {
  const behind = (command: string): readonly string[] => words.slice(words.indexOf(command) + 1 || words.length);
  const [reducing, clearing] = [behind(LVREDUCE), behind(BLKDISCARD)];
  return (
    (reducing.includes("--config") && reducing.some(isPlace)) ||
    (clearing.includes("--length") && clearing.some(isPlace))
  );
}

function isPlace(word: string): boolean {
  return word.includes("/");
}

function findCommand(isSought: (running: RunningCommand) => boolean): string | undefined {
  for (const running of runningCommands())
    if (isSought(running)) return `${running.words.join(" ").trim()} (process ${running.pid})`;
  return undefined;
}
