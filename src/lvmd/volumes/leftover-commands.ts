// Commands that a former lvmd has begun and that still run: what such a one may yet do is not in any report.
import { isBegunHere, runningCommands } from "../../process/running-commands.ts";
import { LvmError } from "../lvm/lvm-error.ts";
import type { Settings } from "../settings/settings.ts";
import { BLKDISCARD } from "./zero-volume.ts";

const LVREDUCE = "lvreduce";
/** What an lvmd of other settings may have begun them by. */
const STARTERS = ["nsenter", "lvm"];

type Prefix = Settings["commandPrefix"];

/** The command line of a process that is about to make this volume smaller; undefined: there is none. */
export function findLeftoverReduce(prefix: Prefix, group: string, name: string): Promise<string | undefined> {
  return findCommand(prefix, ({ words }) => words.includes(LVREDUCE) && words.includes(`${group}/${name}`));
}

/** Of one that still zeroes or discards what was to be cut off this device, by the kernel's path of it. */
export function findLeftoverClearing(prefix: Prefix, kernelPath: string): Promise<string | undefined> {
  return findCommand(prefix, ({ words }) => words.includes(BLKDISCARD) && words.includes(kernelPath));
}

/** Of one of both on whatever volume that an lvmd has begun, and not this one. */
export function findLeftoverOfAny(prefix: Prefix): Promise<string | undefined> {
  return findCommand(prefix, ({ pid, words }) => isAsLvmdWritesIt(words) && !isBegunHere(pid));
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

/** Throws Hung where one of a program that it may be cannot be read. */
async function findCommand(prefix: Prefix, isSought: (running: ReadCommand) => boolean): Promise<string | undefined> {
  for await (const { pid, words } of runningCommands([...prefix, ...STARTERS, LVREDUCE, BLKDISCARD])) {
    if (words === undefined)
      throw new LvmError("Hung", `what process ${pid} does cannot be read; see dmesg on the node`);
    if (isSought({ pid, words })) return `${words.join(" ").trim()} (process ${pid})`;
  }
  return undefined;
}
