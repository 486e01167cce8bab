// LVM commands that a former lvmd has begun and that still run: what such a one may yet do is not in any report.
import { readdirSync, readFileSync } from "node:fs";

/** The command line of a process that is about to make this volume smaller; undefined: there is none. */
export function findLeftoverReduce(group: string, name: string): string | undefined {
  const target = `${group}/${name}`;
  for (const pid of readdirSync("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    const words = commandLine(pid);
    if (words.includes("lvreduce") && words.includes(target)) return `${words.join(" ")} (process ${pid})`;
  }
  return undefined;
}

function commandLine(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch {
    return []; // ended meanwhile
  }
}
