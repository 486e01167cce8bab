// One agent per filesystem on a node: a lock that the kernel holds for this process and releases when it dies, however it
// dies. Node has no flock(2), but the lock belongs to the open file, which a short-lived flock(1) inherits.
import { existsSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { CommandPort } from "../../platform/process/effects/command-port.ts";
import type { FilePort } from "../../platform/process/effects/file-port.ts";

export interface FilesystemLocks {
  /** True when this process holds it now, also when it did before; false while another agent does. */
  acquire(fsid: string): Promise<boolean>;
  release(fsid: string): Promise<void>;
}

const FLOCK = "/usr/bin/flock";
/**
 * flock does not wait for the lock, so this limit ends only a call that hangs. On a busier machine the call fails, and its caller repeats
 * it.
 */
const TIME_LIMIT_MS = 5000;
/** The descriptor under which the child finds the file: the first after stdin, stdout and stderr. */
const INHERITED_DESCRIPTOR = 3;
const CONFLICT_EXIT_CODE = 75;

/** The files stay: removing one would let two agents lock two files of one name. */
export function createFilesystemLocks(directory: string, files: FilePort, commands: CommandPort): FilesystemLocks {
  const held = new Map<string, FileHandle>();
  return {
    acquire: async (fsid) => {
      if (held.has(fsid)) return true;
      const file = await openLockFile(join(directory, `${fsid}.lock`), files);
      let isOurs = false;
      try {
        isOurs = await lock(file, commands, fsid);
      } finally {
        // A flock that ended too late may have locked it: left open, the file would look held by another agent at every later attempt.
        if (!isOurs) await file.close();
      }
      if (isOurs) held.set(fsid, file);
      return isOurs;
    },
    release: async (fsid) => {
      const file = held.get(fsid);
      held.delete(fsid);
      await file?.close();
    },
  };
}

async function openLockFile(path: string, files: FilePort): Promise<FileHandle> {
  if (!existsSync(path)) {
    await files.makeDirectory("agent-lock/make-directory", dirname(path));
    await files.createNew("agent-lock/create-file", path, 0o600).catch(ignoreExisting);
  }
  return open(path, "r");
}

function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST") throw error;
}

async function lock(file: FileHandle, commands: CommandPort, fsid: string): Promise<boolean> {
  const flags = ["--exclusive", "--nonblock", "--conflict-exit-code", `${CONFLICT_EXIT_CODE}`];
  const { exitCode, stderr } = await commands.run("agent-lock/acquire", FLOCK, [...flags, `${INHERITED_DESCRIPTOR}`], {
    timeLimitMs: TIME_LIMIT_MS,
    inherit: [file.fd],
  });
  if (exitCode === 0) return true;
  if (exitCode === CONFLICT_EXIT_CODE) return false;
  throw new Error(`locking filesystem ${fsid}: flock ended with ${exitCode}: ${stderr.trim()}`);
}
