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
/** A cancel of what is being cancelled changes nothing. */
const RECANCEL_INTERVAL_MS = 1000;

export function exclusiveOperationPath(fsid: string): string {
  return `/sys/fs/btrfs/${fsid}/exclusive_operation`;
}

/** "none", "resize", "balance", "balance paused", "device remove", … */
export function exclusiveOperation(fsid: string): string {
  return readFileSync(exclusiveOperationPath(fsid), "utf8").trim();
}

/** Returns once no exclusive operation runs; whatever resize, balance or removal of ours ran, or begins meanwhile, is cancelled. */
export async function stopExclusiveOperation(tools: Tools, volume: MountedFilesystem): Promise<void> {
  if (volume.fsType !== "btrfs") return;
  const hasEnded = (): boolean => exclusiveOperation(volume.fsid) === "none";
  const deadlineMs = performance.now() + CANCEL_LIMIT_MS;
  for (;;) {
    const running = exclusiveOperation(volume.fsid);
    if (running === "none") return;
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
