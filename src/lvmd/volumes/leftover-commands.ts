// Commands that a former lvmd has begun and that still run: what such a one may yet do is not in any report.
import { isBegunHere, runningCommands } from "../../process/running-commands.ts";
import { LvmError } from "../lvm/lvm-error.ts";
import { BLKDISCARD } from "./zero-volume.ts";

const LVREDUCE = "lvreduce";

/** The command line of a process that is about to make this volume smaller; undefined: there is none. */
export function findLeftoverReduce(group: string, name: string): Promise<string | undefined> {
  return findCommand(({ words }) => words.includes(LVREDUCE) && words.includes(`${group}/${name}`));
}

/** Of one that still zeroes or discards what was to be cut off this device, by the kernel's path of it. */
export function findLeftoverClearing(kernelPath: string): Promise<string | undefined> {
  return findCommand(({ words }) => words.includes(BLKDISCARD) && words.includes(kernelPath));
}

/** Of one of both on whatever volume that an lvmd has begun, and not this one. */
export function findLeftoverOfAny(): Promise<string | undefined> {
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

interface ReadCommand {
  readonly pid: string;
  readonly words: readonly string[];
}

/** Throws Hung where one cannot be read: it may be it. */
async function findCommand(isSought: (running: ReadCommand) => boolean): Promise<string | undefined> {
  for await (const { pid, words } of runningCommands()) {
    if (words === undefined)
      throw new LvmError("Hung", `what process ${pid} does cannot be read; see dmesg on the node`);
    if (isSought({ pid, words })) return `${words.join(" ").trim()} (process ${pid})`;
  }
  return undefined;
}
