// Room goes first: an extend cancels whatever exclusive operation runs on a mounted btrfs, and says so where that was somebody else's.

import { type MountedFilesystem, StorageError, type Tell } from "../storage.ts";
import type { Finished, Tools } from "../tools.ts";
import { exclusiveOperation } from "./exclusive-operation.ts";
import { metExclusive, othersOperation } from "./others-at-work.ts";
import { stopExclusiveOperation } from "./stop-exclusive.ts";

/** How often an extend cancels what somebody else starts again and again. */
const MAKE_WAY_LIMIT = 20;

/** As stopExclusiveOperation: a replace, which cannot be taken up again, is not cancelled. */
export async function makeWay(tools: Tools, volume: MountedFilesystem, tell: Tell): Promise<void> {
  if (volume.fsType !== "btrfs") return;
  // Whose it is only the message needs to know: what does not answer that holds up no extend.
  const others = await othersOperation(tools, volume).catch(() => whatRuns(volume));
  const cancelled = new Set(others === undefined ? [] : [others]);
  await stopExclusiveOperation(tools, volume, (later) => cancelled.add(later));
  for (const one of cancelled) tell(`a ${one} that is not Tidemark's was cancelled for it: start it again`);
}

/**
 * Runs a command of an extend; one that finds an exclusive operation in its place runs again after that was cancelled. Returns how the last one
 * ended, which nothing exclusive has refused. Throws DeviceBusy where somebody starts one again each time.
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
