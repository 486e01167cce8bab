// The commands that run on this machine, as /proc shows them: what a process that is no more has begun may go on without it. Looking holds
// the process up for no longer than a slice of them takes.
import { readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { basename } from "node:path";
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
 * process waits for.
 */
export async function* runningCommands(programs?: readonly string[]): AsyncGenerator<RunningCommand, void> {
  const names = programs && new Set(programs.map((program) => basename(program).slice(0, NAME_LENGTH)));
  let read = 0;
  for (const pid of await readdir("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    read += 1;
    if (read % SLICE === 0) await nextTurn();
    if (names === undefined || names.has(nameOf(pid))) yield { pid, words: await commandLine(pid) };
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
function nameOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8").trimEnd();
  } catch {
    return "";
  }
}

async function commandLine(pid: string): Promise<readonly string[] | undefined> {
  const words = readFile(`/proc/${pid}/cmdline`, "utf8").then(
    (text) => text.split("\0"),
    () => [], // ended meanwhile
  );
  const late = new AbortController();
  try {
    return await Promise.race([words, pause(READ_LIMIT_MS, undefined, { signal: late.signal })]);
  } finally {
    late.abort();
  }
}
