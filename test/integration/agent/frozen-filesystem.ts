// A mounted filesystem that accepts no change until it is thawed: a resize begun on it waits in the kernel, so that what a test
// does meanwhile comes in the middle of it, however fast or slow the machine is. Reading it and statfs go on.
import { execFileSync } from "node:child_process";

export interface FrozenFilesystem {
  /** Idempotent. */
  thaw(): void;
}

export function freezeFilesystem(path: string): FrozenFilesystem {
  execFileSync("/usr/sbin/fsfreeze", ["--freeze", path]);
  let frozen = true;
  return {
    thaw: () => {
      if (frozen) execFileSync("/usr/sbin/fsfreeze", ["--unfreeze", path]);
      frozen = false;
    },
  };
}
