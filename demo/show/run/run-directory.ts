// Everything that one run makes is under its run directory or recorded in it, so that the run's end, Ctrl-C, an error, or the
// next start after kill -9 can find and remove it all. Mounts and loop devices are found through the kernel, by their path.
import {
  appendFileSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from "node:fs";
import { basename, join } from "node:path";
import { waitUntil } from "../../../src/platform/process/async/pause.ts";
import type { CommandPort } from "../../../src/platform/process/effects/command-port.ts";
import { runCommand } from "./command.ts";
import { loopDevicesUnder, mountsUnder } from "./mount-table.ts";
import { groupMembers, identityOf, isAlive, type ProcessIdentity } from "./process-table.ts";

const RUN_PREFIX = "run-";
const NEW_PREFIX = "new-";
const PROCESSES_FILE = "processes";
const TERMINATE_LIMIT_MS = 5_000;
const UNMOUNT_LIMIT_MS = 15_000;
const RETRY_INTERVAL_MS = 100;

/** Makes a run directory that names this process as its owner. */
export function createRunDirectory(base: string): string {
  mkdirSync(base, { recursive: true, mode: 0o700 });
  if (!isOwn(base)) throw new Error(`${base} belongs to another user; remove it, or give another directory`);
  const ownerless = mkdtempSync(join(base, NEW_PREFIX));
  recordProcess(ownerless, process.pid);
  // Under its name only now: another run that starts at this moment removes those that name no living owner.
  const directory = join(base, basename(ownerless).replace(NEW_PREFIX, RUN_PREFIX));
  renameSync(ownerless, directory);
  return directory;
}

/** To be called right after a process was started in a group of its own. The first one recorded is the owner. */
export function recordProcess(directory: string, pid: number): void {
  const identity = identityOf(pid);
  if (identity !== undefined)
    appendFileSync(join(directory, PROCESSES_FILE), `${identity.pid} ${identity.startTicks}\n`);
}

/** Removes what runs whose owner is dead have left behind. Returns their directories. */
export async function removeStaleRuns(base: string, commands: CommandPort): Promise<string[]> {
  const stale = runDirectories(base).filter((directory) => {
    const owner = recordedProcesses(directory)[0];
    return owner === undefined || !isAlive(owner);
  });
  for (const directory of stale) await removeRun(directory, commands);
  return stale;
}

/** Ends the run's processes, unmounts, detaches, deletes. Idempotent. Throws with what is left and why. */
export async function removeRun(directory: string, commands: CommandPort): Promise<void> {
  await endProcesses(recordedProcesses(directory).filter(({ pid }) => pid !== process.pid));
  for (const path of mountsUnder(directory)) await unmount(path, commands);
  for (const device of loopDevicesUnder(directory))
    await runCommand(commands, "demo/detach-loop", "/usr/sbin/losetup", ["--detach", device]);
  rmSync(directory, { recursive: true, force: true });
}

function runDirectories(base: string): string[] {
  try {
    return readdirSync(base)
      .filter((name) => name.startsWith(RUN_PREFIX))
      .map((name) => join(base, name))
      .filter(isOwn);
  } catch {
    return []; // no run was ever made here
  }
}

/** What others write into a directory of theirs must not end processes or remove files here. */
function isOwn(directory: string): boolean {
  const found = lstatSync(directory, { throwIfNoEntry: false });
  return found?.isDirectory() === true && found.uid === process.getuid?.();
}

function recordedProcesses(directory: string): ProcessIdentity[] {
  let text: string;
  try {
    text = readFileSync(join(directory, PROCESSES_FILE), "utf8");
  } catch {
    return [];
  }
  return text
    .split("\n")
    .filter((line) => /^\d+ \d+$/.test(line))
    .map((line) => {
      const [pid, startTicks] = line.split(" ").map(Number);
      return { pid: pid ?? 0, startTicks: startTicks ?? 0 };
    });
}

/** SIGTERM to all at once, then SIGKILL to those that are left and to the commands that they have left behind. */
async function endProcesses(processes: readonly ProcessIdentity[]): Promise<void> {
  signalAll(processes.filter(isAlive), "SIGTERM");
  await waitUntil(() => !processes.some(isAlive), TERMINATE_LIMIT_MS, RETRY_INTERVAL_MS);
  signalAll(processes.flatMap(groupMembers), "SIGKILL");
}

function signalAll(processes: readonly ProcessIdentity[], signal: NodeJS.Signals): void {
  for (const { pid } of processes) {
    try {
      process.kill(pid, signal);
    } catch {
      // It has ended since.
    }
  }
}

/**
 * A dead agent's command, or another user's `df`, may hold the filesystem for a moment: tried until the limit, then taken out of the way.
 */
async function unmount(path: string, commands: CommandPort): Promise<void> {
  const unmounted = async (): Promise<boolean> => {
    await commands.run("demo/unmount", "/usr/bin/umount", [path], { timeLimitMs: UNMOUNT_LIMIT_MS });
    return !mountsUnder(path).includes(path);
  };
  if (await waitUntil(unmounted, UNMOUNT_LIMIT_MS, RETRY_INTERVAL_MS)) return;
  // A shell of the user sits in it: it disappears from the tree now and is released when that shell leaves it.
  await runCommand(commands, "demo/unmount-lazily", "/usr/bin/umount", ["--lazy", path]);
}
