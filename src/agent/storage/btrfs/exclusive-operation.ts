// The one exclusive operation that a btrfs is at (resize, balance, add, remove, replace), whose it is, and how it is stopped: by the agent
// that shrinks, by an extend, which goes first, and after an agent that has died. The exit codes of the cancel commands say little; the
// kernel's state file decides.

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { pause, waitUntil } from "../../../platform/process/async/pause.ts";
import { runningCommands } from "../../../platform/process/effects/command-port.ts";
import type { MountedFilesystem, ShrinkResult, Tell } from "../storage.ts";
import { StorageError } from "../storage-error.ts";
import { expectSuccess, type Finished, type Tools } from "../tools.ts";

/** A shrink of ours repacks data chunks by their use, and nothing else (decide-shrink.ts). */
const OUR_FILTERS = /^\s*DATA \([^)]*\): balancing, usage=(0|25|50)$/;
const FILTERS = /^\s*(DATA|METADATA|SYSTEM) \(/;

/**
 * The exclusive operation that is not ours, as sysfs names it, such as "balance paused". Undefined: no operation, or one that a dead agent
 * has left. A resize, or a removal from a span, counts as ours: only Tidemark resizes its filesystems.
 */
export async function othersOperation(tools: Tools, volume: MountedFilesystem): Promise<string | undefined> {
  if (volume.fsType !== "btrfs") return undefined;
  const running = exclusiveOperation(volume.fsid);
  switch (running) {
    case "none":
    case "resize":
      return undefined;
    case "device add":
    case "device remove":
      return volume.backend === "span" ? undefined : running;
    case "balance":
    case "balance paused":
      return (await isOurBalance(tools, volume)) ? undefined : running;
    default:
      return running;
  }
}

async function isOurBalance(tools: Tools, { handle, mountPath }: MountedFilesystem): Promise<boolean> {
  const told = await tools.query("btrfs", ["balance", "status", "--verbose", mountPath]);
  // The command ends with 1 where a balance is there, and with 0 where the balance has ended since.
  if (told.exitCode !== 1) expectSuccess(told, `asking for the balance of ${handle}`);
  return hasOurFilters(told.stdout);
}

/** Whether `btrfs balance status --verbose` reports only a balance that a shrink of ours may have started, or no balance at all. */
export function hasOurFilters(status: string): boolean {
  const filters = status.split("\n").filter((line) => FILTERS.test(line));
  return filters.every((line) => OUR_FILTERS.test(line));
}

/** Whether a shrink of ours may have begun a balance with this filter. */
function isOurBalanceFilter(argument: string): boolean {
  return /^-dusage=(0|25|50)$/.test(argument);
}

/** Whether a command has found another exclusive operation in its place. */
export function metExclusive(stderr: string): boolean {
  return /exclusive operation .*in progress|operation in progress/i.test(stderr);
}

/** Whether the kernel has refused to move a chunk for a swapfile in it (fs/btrfs/volumes.c: ETXTBSY). */
export function metSwapfile(stderr: string): boolean {
  return /text file busy/i.test(stderr);
}

/** It is tried again, at longer and longer intervals. */
export function busy({ mountPath }: MountedFilesystem, sizeBytes: number, others: string): ShrinkResult {
  return {
    outcome: "Busy",
    sizeBytes,
    message: `another program is working on ${mountPath} (${others}); the shrink waits until it has ended`,
  };
}

export function exclusiveOperationPath(fsid: string): string {
  return `/sys/fs/btrfs/${fsid}/exclusive_operation`;
}

/**
 * Which one runs now. btrfs goes on with it after the process that asked has died. "none", "resize", "balance", "balance paused", "device
 * remove", …
 */
export function exclusiveOperation(fsid: string): string {
  return readFileSync(exclusiveOperationPath(fsid), "utf8").trim();
}

// A relocation notices a cancel between two extents: up to 0.8 s measured; a saturated disk may add seconds.
const CANCEL_LIMIT_MS = 60_000;
const CANCEL_INTERVAL_MS = 10;
/** A cancel of what is being cancelled changes nothing. */
const RECANCEL_INTERVAL_MS = 1000;

/**
 * Returns once no exclusive operation runs: it cancels the one that runs, and those of ours that start until then. Another process's
 * operation that starts until then is cancelled only where `meets` is given, which is called first. Without `meets` that operation goes on,
 * and this returns.
 */
export async function stopExclusiveOperation(
  tools: Tools,
  volume: MountedFilesystem,
  meets?: (others: string) => void,
): Promise<void> {
  if (volume.fsType !== "btrfs") return;
  const hasEnded = (): boolean => exclusiveOperation(volume.fsid) === "none";
  const deadlineMs = performance.now() + CANCEL_LIMIT_MS;
  for (let round = 1; ; round += 1) {
    const running = exclusiveOperation(volume.fsid);
    if (running === "none") return;
    // Whose the first one is the caller knows.
    const others = round === 1 ? undefined : await othersOperation(tools, volume);
    if (others !== undefined && meets === undefined) return;
    if (others !== undefined) meets?.(others);
    await cancel(tools, volume, running);
    // What runs after a while may be another one, begun right when the cancelled one had ended.
    if (await waitUntil(hasEnded, RECANCEL_INTERVAL_MS, CANCEL_INTERVAL_MS)) return;
    if (performance.now() < deadlineMs) continue;
    throw new StorageError(
      "Hung",
      `the cancelled ${running} on ${volume.mountPath} (${volume.handle}) has not ended after ${CANCEL_LIMIT_MS} ms`,
    );
  }
}

async function cancel(tools: Tools, volume: MountedFilesystem, running: string): Promise<void> {
  switch (running) {
    case "resize":
      await tools.run("shrink/cancel-resize", "btrfs", ["filesystem", "resize", "cancel", volume.mountPath]);
      return;
    case "balance":
    case "balance paused":
      await tools.run("shrink/cancel-balance", "btrfs", ["balance", "cancel", volume.mountPath]);
      return;
    case "device add": // A dead agent's: it ends by itself, soon.
    case "device remove":
      if (volume.backend !== "span") throw notOurs(volume, running);
      if (running === "device remove")
        await tools.run("span/cancel-remove", "btrfs", ["device", "remove", "cancel", volume.mountPath]);
      return;
    default:
      throw notOurs(volume, running);
  }
}

function notOurs(volume: MountedFilesystem, running: string): StorageError {
  return new StorageError(
    "DeviceBusy",
    `a "${running}" that is not ours runs on ${volume.mountPath} (${volume.handle}); wait for its end or cancel it`,
  );
}

/** How often an extend cancels an operation that another process starts again and again. */
const MAKE_WAY_LIMIT = 20;

/**
 * Extends go first: this cancels whatever exclusive operation runs, and says so where that operation was not Tidemark's. As
 * stopExclusiveOperation: a replace, which cannot be taken up again, is not cancelled.
 */
export async function makeWay(tools: Tools, volume: MountedFilesystem, tell: Tell): Promise<void> {
  if (volume.fsType !== "btrfs") return;
  // Whose it is only the message needs to know: what does not answer that holds up no extend.
  const others = await othersOperation(tools, volume).catch(() => whatRuns(volume));
  const cancelled = new Set(others === undefined ? [] : [others]);
  await stopExclusiveOperation(tools, volume, (later) => cancelled.add(later));
  for (const one of cancelled) tell(`a ${one} that is not Tidemark's was cancelled for it: start it again`);
}

/**
 * Runs a command of an extend; a command that meets an exclusive operation runs again after that was cancelled. Returns the end of the last
 * run, which no exclusive operation has refused. Throws DeviceBusy where another process starts one again each time.
 */
export async function runMakingWay(
  tools: Tools,
  volume: MountedFilesystem,
  tell: Tell,
  task: string,
  run: () => Promise<Finished>,
): Promise<Finished> {
  for (let attempt = 1; ; attempt += 1) {
    const finished = await run();
    if (finished.exitCode === 0 || !metExclusive(finished.stderr)) return finished;
    await makeWayAgain(tools, volume, tell, task, attempt, finished.stderr);
  }
}

/** After the attempt of this number, from 1, has met an exclusive operation. Throws DeviceBusy after the last one. */
export async function makeWayAgain(
  tools: Tools,
  volume: MountedFilesystem,
  tell: Tell,
  task: string,
  attempt: number,
  stderr: string,
): Promise<void> {
  if (attempt === MAKE_WAY_LIMIT) throw new StorageError("DeviceBusy", `${task}: ${stderr.trim()}; let it wait`);
  await makeWay(tools, volume, tell);
}

function whatRuns({ fsid }: MountedFilesystem): string | undefined {
  const running = exclusiveOperation(fsid);
  return running === "none" ? undefined : running;
}

const BTRFS_PROGRAM = "btrfs";
const LEFTOVER_LIMIT_MS = 60_000;
const LEFTOVER_INTERVAL_MS = 10;

/**
 * After a dead agent: a btrfs command of it may not have reached the kernel yet. Only the list of processes shows it, and it would resize a
 * filesystem that no process watches. Returns once no exclusive operation of btrfs runs except another user's, and no such command is left
 * that could start one. It ends no process: a person may have started it. Throws DeviceBusy where a command stays, and where the signal
 * comes first: an extend does not wait for what others have started.
 */
export async function stopLeftoverOperations(
  tools: Tools,
  volume: MountedFilesystem,
  signal: AbortSignal,
): Promise<void> {
  if (volume.fsType !== "btrfs") return;
  const deadlineMs = performance.now() + LEFTOVER_LIMIT_MS;
  for (;;) {
    // Order matters: what is not seen here has ended, or has reached the kernel, where the next line finds it.
    const leftover = await leftoverCommand(volume.mountPath);
    if ((await othersOperation(tools, volume)) === undefined) await stopExclusiveOperation(tools, volume);
    if (leftover === undefined) return;
    if (signal.aborted || performance.now() >= deadlineMs)
      throw new StorageError(
        "DeviceBusy",
        `wait until it has ended, or end it: ${leftover} of a former agent, or of a person, still runs on ${volume.handle}`,
      );
    await pause(LEFTOVER_INTERVAL_MS, signal);
  }
}

async function leftoverCommand(mountPath: string): Promise<string | undefined> {
  for await (const { pid, words } of runningCommands([BTRFS_PROGRAM])) {
    // It may hang for as long as its filesystem does: an extend is not to wait for it.
    if (words === undefined)
      throw new StorageError("DeviceBusy", `process ${pid} is a btrfs command, and on which filesystem cannot be read`);
    const [program = "", ...args] = words;
    if (basename(program) === BTRFS_PROGRAM && args.includes(mountPath) && beginsOperation(args))
      return `"${words.join(" ").trim()}" (process ${pid})`;
  }
  return undefined;
}

/** Only those that the agent gives. */
function beginsOperation([group, command, argument]: readonly string[]): boolean {
  switch (`${group} ${command}`) {
    case "filesystem resize":
    case "device remove":
      return argument !== "cancel";
    case "balance start":
      return isOurBalanceFilter(argument ?? "");
    case "device add":
      return true;
    default:
      return false;
  }
}
