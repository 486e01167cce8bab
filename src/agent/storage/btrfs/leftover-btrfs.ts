// A btrfs command that a dead agent has begun, and that has not reached the kernel yet: nothing but the list of processes shows it, and
// it would resize a filesystem that nobody watches.
import { basename } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { runningCommands } from "../../../process/running-commands.ts";
import { type MountedFilesystem, StorageError } from "../storage.ts";
import type { Tools } from "../tools.ts";
import { isOurBalanceFilter, othersOperation } from "./others-at-work.ts";
import { stopExclusiveOperation } from "./stop-exclusive.ts";

const PROGRAM = "btrfs";
const LIMIT_MS = 60_000;
const INTERVAL_MS = 10;

/**
 * Returns once no exclusive operation of btrfs runs but somebody else's, and no such command is left that could begin one. It ends no process: a person may have
 * begun it. Throws DeviceBusy where one stays, and where the signal comes first: an extend does not wait for what others have begun.
 */
export async function stopLeftoverOperations(
  tools: Tools,
  volume: MountedFilesystem,
  signal: AbortSignal,
): Promise<void> {
  if (volume.fsType !== "btrfs") return;
  const deadlineMs = performance.now() + LIMIT_MS;
  for (;;) {
    // Order matters: what is not seen here has ended, or has reached the kernel, where the next line finds it.
    const leftover = await leftoverCommand(volume.mountPath);
    if ((await othersOperation(tools, volume)) === undefined) await stopExclusiveOperation(tools, volume);
    if (leftover === undefined) return;
    if (signal.aborted || performance.now() >= deadlineMs)
      throw new StorageError(
        "DeviceBusy",
        `${leftover} of a former agent, or of a person, still runs on ${volume.mountPath} (${volume.handle}); wait until it has ended, or end it`,
      );
    await pause(INTERVAL_MS, undefined, { signal }).catch(() => undefined);
  }
}

async function leftoverCommand(mountPath: string): Promise<string | undefined> {
  for await (const { pid, words } of runningCommands([PROGRAM])) {
    // It may hang for as long as its filesystem does: an extend is not to wait for it.
    if (words === undefined)
      throw new StorageError("DeviceBusy", `process ${pid} is a btrfs command, and on which filesystem cannot be read`);
    const [program = "", ...args] = words;
    if (basename(program) === PROGRAM && args.includes(mountPath) && beginsOperation(args))
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
