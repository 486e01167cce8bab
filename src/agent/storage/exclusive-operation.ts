// btrfs does one of resize, balance, add, remove, replace at a time, and goes on with it although whoever asked is dead. This
// reads which one runs, and stops it. The exit codes of the cancel commands say little; the kernel's state file decides.
import { readFileSync } from "node:fs";
import type { MountedFilesystem } from "./storage.ts";
import { StorageError } from "./storage.ts";
import type { Tools } from "./tools.ts";
import { waitUntil } from "./wait-until.ts";

// A relocation notices a cancel between two extents: up to 0.8 s measured; a saturated disk may add seconds.
const CANCEL_LIMIT_MS = 60_000;
const CANCEL_INTERVAL_MS = 10;

export function exclusiveOperationPath(fsid: string): string {
  return `/sys/fs/btrfs/${fsid}/exclusive_operation`;
}

/** "none", "resize", "balance", "balance paused", "device remove", … */
export function exclusiveOperation(fsid: string): string {
  return readFileSync(exclusiveOperationPath(fsid), "utf8").trim();
}

/** Returns once no exclusive operation runs; whatever resize, balance or removal of ours ran is cancelled. */
export async function stopExclusiveOperation(tools: Tools, volume: MountedFilesystem): Promise<void> {
  if (volume.fsType !== "btrfs") return;
  const running = exclusiveOperation(volume.fsid);
  switch (running) {
    case "none":
      return;
    case "resize":
      await tools.run("shrink/cancel-resize", "btrfs", ["filesystem", "resize", "cancel", volume.mountPath]);
      break;
    case "balance":
    case "balance paused":
      await tools.run("shrink/cancel-balance", "btrfs", ["balance", "cancel", volume.mountPath]);
      break;
    case "device add": // A dead agent's: it ends by itself, soon.
    case "device remove":
      if (volume.backend !== "span") throw notOurs(volume, running);
      if (running === "device remove")
        await tools.run("span/cancel-remove", "btrfs", ["device", "remove", "cancel", volume.mountPath]);
      break;
    default:
      throw notOurs(volume, running);
  }
  if (await waitUntil(() => exclusiveOperation(volume.fsid) === "none", CANCEL_LIMIT_MS, CANCEL_INTERVAL_MS)) return;
  throw new StorageError(
    "Hung",
    `the cancelled ${running} on ${volume.mountPath} (${volume.handle}) has not ended after ${CANCEL_LIMIT_MS} ms`,
  );
}

function notOurs(volume: MountedFilesystem, running: string): StorageError {
  return new StorageError(
    "DeviceBusy",
    `a "${running}" that is not ours runs on ${volume.mountPath} (${volume.handle}); wait for its end or cancel it`,
  );
}
