// Stops the exclusive operation of a btrfs. The exit codes of the cancel commands say little; the kernel's state file decides.

import { type MountedFilesystem, StorageError } from "../storage.ts";
import type { Tools } from "../tools.ts";
import { waitUntil } from "../wait-until.ts";
import { exclusiveOperation } from "./exclusive-operation.ts";
import { othersOperation } from "./others-at-work.ts";

// A relocation notices a cancel between two extents: up to 0.8 s measured; a saturated disk may add seconds.
const CANCEL_LIMIT_MS = 60_000;
const CANCEL_INTERVAL_MS = 10;
/** A cancel of what is being cancelled changes nothing. */
const RECANCEL_INTERVAL_MS = 1000;

/**
 * Returns once no exclusive operation runs: what runs is cancelled, and what of ours begins meanwhile. What somebody else begins meanwhile is
 * cancelled as well where `meets` is given, which hears of it first; without `meets` it goes on, and this returns.
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
