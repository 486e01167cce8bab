// A filesystem that never answers: a FUSE mount whose other end is held open and never read. statfs on it blocks in the kernel
// until `release`.
import { execFileSync } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { waitFor } from "../../harness/wait-for.ts";

export interface HungMount {
  /** It answers with an error from now on; and the mount goes away. */
  release(): Promise<void>;
}

/** Covers whatever is mounted at the path. */
export function coverWithHungMount(path: string): HungMount {
  const device = openSync("/dev/fuse", "r+");
  const options = "fd=3,rootmode=40000,user_id=0,group_id=0";
  execFileSync("/usr/bin/mount", ["--internal-only", "--types", "fuse", "--options", options, "hung", path], {
    stdio: ["ignore", "ignore", "inherit", device],
  });
  return {
    release: async () => {
      closeSync(device);
      // Whoever waited in it holds it until the kernel has woken him with the error.
      await waitFor(`${path} to be uncovered`, () => {
        execFileSync("/usr/bin/umount", ["--internal-only", path], { stdio: "pipe" });
        return true;
      });
    },
  };
}
