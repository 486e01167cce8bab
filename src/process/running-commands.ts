// The commands that run on this machine, as /proc shows them: what a process that is no more has begun may go on without it.
import { readdirSync, readFileSync } from "node:fs";

export interface RunningCommand {
  readonly pid: string;
  /** Of its command line, the program first; none where it has ended meanwhile. */
  readonly words: readonly string[];
}

/** Each is read when it is come to. */
export function* runningCommands(): Generator<RunningCommand, void> {
  for (const pid of readdirSync("/proc")) if (/^\d+$/.test(pid)) yield { pid, words: commandLine(pid) };
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

function commandLine(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch {
    return []; // ended meanwhile
  }
}
