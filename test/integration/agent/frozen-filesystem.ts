// A mounted filesystem that accepts no change until it is thawed: a resize begun on it waits in the kernel, so that what a test
// does meanwhile comes in the middle of it, however fast or slow the machine is. Reading it and statfs go on.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

export interface FrozenFilesystem {
  /** Whether a resize of it waits in the kernel. An unmount before that would hide the filesystem, frozen as it is. */
  holdsResize(): boolean;
  /** Idempotent. */
  thaw(): void;
}

export function freezeFilesystem(path: string): FrozenFilesystem {
  execFileSync("/usr/sbin/fsfreeze", ["--freeze", path]);
  let frozen = true;
  return {
    holdsResize: () => commandLines().some((line) => line.includes("filesystem resize") && line.includes(path)),
    thaw: () => {
      if (frozen) execFileSync("/usr/sbin/fsfreeze", ["--unfreeze", path]);
      frozen = false;
    },
  };
}

function commandLines(): string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
      } catch {
        return ""; // ended meanwhile
      }
    });
}
