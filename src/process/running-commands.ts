// The commands that run on this machine, as /proc shows them: what a process that is no more has begun may go on without it. Looking holds
// the process up for no longer than a slice of them takes.
import { existsSync, readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { setImmediate as nextTurn, setTimeout as pause } from "node:timers/promises";

export interface RunningCommand {
  readonly pid: string;
  /** Of its command line, the program first; none where it has ended meanwhile. Undefined: it cannot be read now. */
  readonly words: readonly string[] | undefined;
}

/** The kernel gives a command line only once the memory of its process is not being changed: it may wait for a process that hangs. */
const READ_LIMIT_MS = 1000;
/** Read without a pause in between, a few microseconds each. */
const SLICE = 64;
/** The kernel keeps so much of a program's name. */
const NAME_LENGTH = 15;

/**
 * Each is read when it is come to. `programs`: only those that were started by one of these names, which the kernel tells whatever a
 * process waits for. `directory`: where the kernel shows processes.
 */
export async function* runningCommands(
  programs?: readonly string[],
  directory = "/proc",
): AsyncGenerator<RunningCommand, void> {
  const names = programs && new Set(programs.map((program) => basename(program).slice(0, NAME_LENGTH)));
  let read = 0;
  for (const pid of await readdir(directory)) {
    if (!/^\d+$/.test(pid)) continue;
    read += 1;
    if (read % SLICE === 0) await nextTurn();
    const path = join(directory, pid);
    if (names === undefined || names.has(nameOf(path))) yield { pid, words: await commandLine(join(path, "cmdline")) };
  }
}

/** Whether this process has begun it, itself or through others that still run. */
export function isBegunHere(pid: string): boolean {
  for (let ancestor = parentOf(pid); ancestor > 0; ancestor = parentOf(String(ancestor)))
    if (ancestor === process.pid) return true;
  return false;
}

/** 0: there is none, or the process has ended. */
function parentOf(pid: string): number {
  try {
    return Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
  } catch {
    return 0;
  }
}

/** Empty: it has ended meanwhile. */
function nameOf(path: string): string {
  try {
    return readFileSync(join(path, "comm"), "utf8").trimEnd();
  } catch {
    return "";
  }
}

type Words = readonly string[] | undefined;

/** By path, of reads that have not ended. One that does not end holds a thread of the pool, which has few: it is not begun a second time. */
const pendingReads = new Map<string, Promise<Words>>();

function commandLine(path: string): Promise<Words> {
  const pending = pendingReads.get(path);
  if (pending !== undefined) return pending;
  const words = readFile(path, "utf8")
    .then(
      (text) => text.split("\0"),
      () => [], // ended meanwhile
    )
    .finally(() => pendingReads.delete(path));
  const inTime = withinLimit(words, dirname(path));
  pendingReads.set(path, inTime);
  return inTime;
}

/** Undefined where it takes longer; none where the process has ended by then, of which the kernel shows no directory any more. */
async function withinLimit(words: Promise<Words>, processDirectory: string): Promise<Words> {
  const late = new AbortController();
  const limit = async (): Promise<Words> => {
    await pause(READ_LIMIT_MS, undefined, { signal: late.signal });
    return existsSync(processDirectory) ? undefined : [];
  };
  try {
    return await Promise.race([words, limit()]);
  } finally {
    late.abort();
  }
}
