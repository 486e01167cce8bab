// Room goes first: an extend cancels whatever exclusive operation runs on a mounted btrfs, and says so where that was somebody else's.
import { exclusiveOperation, stopExclusiveOperation } from "./exclusive-operation.ts";
import { othersOperation } from "./others-at-work.ts";
import type { MountedFilesystem, Tell } from "./storage.ts";
import type { Tools } from "./tools.ts";

/** As stopExclusiveOperation: a replace, which cannot be taken up again, is not cancelled. */
export async function makeWay(tools: Tools, volume: MountedFilesystem, tell: Tell): Promise<void> {
  if (volume.fsType !== "btrfs") return;
  // Whose it is only the message needs to know: what does not answer that holds up no extend.
  const others = await othersOperation(tools, volume).catch(() => whatRuns(volume));
  await stopExclusiveOperation(tools, volume);
  if (others !== undefined) tell(`a ${others} that is not Tidemark's was cancelled for it: start it again`);
}

function whatRuns({ fsid }: MountedFilesystem): string | undefined {
  const running = exclusiveOperation(fsid);
  return running === "none" ? undefined : running;
}
