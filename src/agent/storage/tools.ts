// The programs that storage runs, found once and run by absolute path. It turns what can go wrong with running a program into
// StorageErrors; what a non-zero exit means is the caller's to say.
import { accessSync, constants } from "node:fs";
import { CommandError, type CommandPort } from "../../platform/process/effects/command-port.ts";
import type { EffectPoint } from "../../platform/process/effects/effects.ts";
import { StorageError } from "./storage-error.ts";

/** An image of the agent has all of them. */
export const PROGRAMS = [
  "blockdev",
  "btrfs",
  "e2fsck",
  "fstrim",
  "losetup",
  "mkfs.btrfs",
  "mkfs.ext4",
  "mkfs.xfs",
  "mount",
  "resize2fs",
  "sync",
  "tune2fs",
  "umount",
  "unshare",
  "wipefs",
  "xfs_db",
  "xfs_growfs",
] as const;
export type Program = (typeof PROGRAMS)[number];

export interface Finished {
  readonly commandLine: string;
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Tools {
  /** Runs a program that changes something. Throws Hung when it does not end, CommandFailed when it cannot start. */
  run(
    point: EffectPoint,
    program: Program,
    args: readonly string[],
    timeLimitMs?: number,
    signal?: AbortSignal,
  ): Promise<Finished>;
  /** Runs a program that only reads, or writes out what is pending. */
  query(program: Program, args: readonly string[], timeLimitMs?: number, outputLimitBytes?: number): Promise<Finished>;
}

const DIRECTORIES = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"] as const;
const TIME_LIMIT_MS = 30_000;

export function createTools(commands: CommandPort): Tools {
  const paths = new Map<Program, `/${string}`>();
  const pathOf = (program: Program): `/${string}` => {
    const path = paths.get(program) ?? findProgram(program);
    paths.set(program, path);
    return path;
  };
  return {
    run: (point, program, args, timeLimitMs = TIME_LIMIT_MS, signal) =>
      finish(program, args, () =>
        commands.run(point, pathOf(program), args, { timeLimitMs, ...(signal && { signal }) }),
      ),
    query: (program, args, timeLimitMs = TIME_LIMIT_MS, outputLimitBytes = undefined) => {
      const limits = { timeLimitMs, ...(outputLimitBytes === undefined ? {} : { outputLimitBytes }) };
      return finish(program, args, () => commands.query(pathOf(program), args, limits));
    },
  };
}

/** The output of a program that ended well; throws CommandFailed with `task` ("growing the loop device of …") otherwise. */
export function expectSuccess(finished: Finished, task: string): string {
  if (finished.exitCode === 0) return finished.stdout;
  const said = `${finished.stderr.trim() || finished.stdout.trim() || "it said nothing"}`;
  throw new StorageError(
    "CommandFailed",
    `${task}: "${finished.commandLine}" ended with ${finished.exitCode}: ${said}`,
  );
}

async function finish(
  program: Program,
  args: readonly string[],
  start: () => Promise<{ exitCode: number; stdout: string; stderr: string }>,
): Promise<Finished> {
  const commandLine = [program, ...args].join(" ");
  try {
    return { commandLine, ...(await start()) };
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    if (error.code !== "TimedOut") throw new StorageError("CommandFailed", `"${commandLine}": ${error.message}`, error);
    throw new StorageError("Hung", `"${commandLine}" is stuck in the kernel (${error.message}); see dmesg`, error);
  }
}

function findProgram(program: Program): `/${string}` {
  for (const directory of DIRECTORIES) {
    try {
      accessSync(`${directory}/${program}`, constants.X_OK);
      return `${directory}/${program}`;
    } catch {
      // Not in this one: look on.
    }
  }
  throw new StorageError(
    "CommandFailed",
    `${program} is not in ${DIRECTORIES.join(", ")}; install btrfs-progs, e2fsprogs, xfsprogs and util-linux`,
  );
}
