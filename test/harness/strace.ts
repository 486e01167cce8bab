// What a process really did, as the kernel saw it: its trace by strace, reduced to the programs that it started and the changes
// that it made to files below one directory.
import { readFileSync } from "node:fs";
import type { BundleProcess } from "./bundle-process.ts";

const SYSTEM_CALLS = [
  ...[
    "execve",
    "open",
    "openat",
    "creat",
    "truncate",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "rmdir",
  ],
  ...["mkdir", "mkdirat", "link", "linkat", "symlink", "symlinkat", "mount", "umount2"],
  ...["fsync", "fdatasync"],
];

/** The words that start a program under strace. */
export function straceTo(tracePath: string): string[] {
  const trace = `trace=${SYSTEM_CALLS.join(",")}`;
  return ["strace", "-f", "-y", "--seccomp-bpf", "-s", "500", "-o", tracePath, "-e", trace];
}

/** SIGTERM to what strace has started, since strace itself would only let go of it; resolves when both have ended. */
export async function endTraced(strace: BundleProcess): Promise<void> {
  const { pid } = strace;
  const [traced] = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
  process.kill(Number(traced), "SIGTERM");
  await strace.ended();
}

/**
 * "run PROGRAM ARG …" for each program started, "CALL PATH [FLAGS]" for each change to a file below the directory, by the traced
 * process itself. What a started program does is its own: it was started by name.
 */
export function changesIn(tracePath: string, directory: string): string[] {
  const programs = new Set<string>();
  let traced: string | undefined;
  const changes: string[] = [];
  for (const line of readFileSync(tracePath, "utf8").split("\n")) {
    const [, pid = "", call = "", rest = ""] = /^(\d+) +(\w+)\((.*)$/.exec(line) ?? [];
    if (call === "execve") {
      if (traced === undefined) traced = pid;
      else {
        programs.add(pid);
        changes.push(`run ${wordsIn(rest).slice(1).join(" ")}`);
      }
      continue;
    }
    if (call === "" || programs.has(pid)) continue;
    const change = fileChange(call, rest, directory);
    if (change !== undefined) changes.push(change);
  }
  return changes;
}

function fileChange(call: string, rest: string, directory: string): string | undefined {
  const path = wordsIn(rest).at(-1) ?? "";
  if (!path.startsWith(`${directory}/`)) return undefined;
  const flags = /\bO_[A-Z_|]+/.exec(rest)?.[0] ?? "";
  const relative = path.slice(directory.length + 1);
  if (!call.startsWith("open")) return `${call} ${relative}`;
  return /O_CREAT|O_WRONLY|O_RDWR|O_TRUNC/.test(flags) ? `${call} ${relative} ${flags}` : undefined;
}

/** The quoted strings of a call's arguments; of a call that renames, the last one is the new name. */
function wordsIn(text: string): string[] {
  return [...text.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, word = ""]) => word);
}
