// btrfs does one of resize, balance, add, remove, replace at a time, and goes on with it although whoever asked is dead. This reads which one
// runs.
import { readFileSync } from "node:fs";

export function exclusiveOperationPath(fsid: string): string {
  return `/sys/fs/btrfs/${fsid}/exclusive_operation`;
}

/** "none", "resize", "balance", "balance paused", "device remove", … */
export function exclusiveOperation(fsid: string): string {
  return readFileSync(exclusiveOperationPath(fsid), "utf8").trim();
}
