// Where something is to be mounted must be itself: mount follows a symbolic link to wherever it leads, /etc included.
import { lstatSync } from "node:fs";
import { StorageError } from "../storage.ts";

/** Throws where the path is a symbolic link; it need not exist. Not for a path that is mounted already. */
export function assertNoLink(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return;
  throw new StorageError("CommandFailed", `${path} is a symbolic link; nothing is mounted through it. Remove the link`);
}
