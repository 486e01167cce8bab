// Releases a staged volume. What fails on its way leaves a state that is true: what the kernel has mounted no more is mounted no more, and
// what is left to be given back is held until a later call has done that.
import { readGrant } from "../../contracts/kinds/grant.ts";
import type { Logger } from "../../platform/process/log.ts";
import type { Sampler } from "../sampling/sampler.ts";
import type { Mounting } from "../storage/storage.ts";
import { StorageError, unlessHung } from "../storage/storage-error.ts";
import type { NodeRecords } from "../volumes/node-records.ts";
import { type NodeVolume, saveRecord } from "../volumes/node-volume.ts";
import { type NodeVolumeState, volumeOf } from "../volumes/volume-state.ts";
import type { FilesystemLocks } from "./filesystem-lock.ts";

export interface UnstageParts {
  readonly storage: Mounting;
  readonly records: NodeRecords;
  readonly locks: FilesystemLocks;
  readonly sampler: Sampler;
  readonly log: Logger;
  /** Of a volume that has just been unmounted: what is wanted of its size, and must be done now. Rejects where it is not ended. */
  readonly shrinkAtUnmount: (volume: NodeVolume) => Promise<void>;
}

const FIND_LIMIT_MS = 20_000;

export async function unstageVolume(parts: UnstageParts, volume: NodeVolume, stagingPath: string): Promise<void> {
  const { storage, records, locks, sampler, log } = parts;
  const { handle } = volume;
  volume.dispatch({ type: "ReleaseStarted" });
  try {
    await volume.cancelAndWait({ because: "Unstage" });
    sampler.forget(handle);
    await storage.unstage(volumeOf(volume.state.record), stagingPath).catch(async (error: unknown) => {
      await noteUnmounted(parts, volume);
      noteHeld(volume, error);
      throw error;
    });
    volume.dispatch({ type: "Unmounted" });
    // The record still says that it is staged here: after a crash the next agent takes it up from there.
    await parts.shrinkAtUnmount(volume);
    volume.dispatch({ type: "Unstaged" });
    await saveRecord(records, volume, "PowerCut");
    await locks.release(volumeOf(volume.state.record).fsid);
    log.info({ volume: handle, stagingPath }, "unstaged");
  } finally {
    volume.dispatch({ type: "ReleaseEnded" });
    sampleMount(sampler, volume.state); // it could not be unmounted: it is sampled on
  }
}

/** From a mount or a take-over on. Nothing to do where it is not mounted, or sampled already. */
export function sampleMount(sampler: Sampler, { handle, mounted, record: { grant } }: NodeVolumeState): void {
  if (mounted === undefined || !("fsType" in mounted.volume)) return; // of a raw device nothing can be sampled
  sampler.watch(handle, mounted.volume, grant === undefined ? 0 : readGrant(grant).minAvailableBytes);
}

/**
 * Gives back members after a stage or an unstage that failed or died on its way. Kubelet need not call again, and another node may wait for
 * these members.
 */
export async function giveBackHeld(volume: NodeVolume, giveBack: () => Promise<void>): Promise<void> {
  if (!volume.state.held) return;
  try {
    await giveBack();
  } catch (error) {
    // Of a stage that failed its own problem is said. Without a record nothing else says anything.
    if (volume.state.leavingProblem !== undefined || !volume.state.recorded) noteHeld(volume, error);
    throw error;
  }
  volume.dispatch({ type: "MembersGivenBack" });
}

/**
 * Handles a mount that another process has unmounted: the volume counts as unmounted, and the next pod that needs it has it staged again.
 */
export async function forgetLostMount(parts: UnstageParts, volume: NodeVolume): Promise<void> {
  const { handle, state } = volume;
  const stagingPath = state.mounted?.volume.mountPath;
  if (stagingPath === undefined || (await isMountedAt(parts.storage, state, stagingPath))) return;
  volume.dispatch({ type: "ReleaseStarted" });
  try {
    await volume.cancelAndWait({ because: "Unstage" });
    parts.sampler.forget(handle);
    parts.log.warn({ volume: handle, stagingPath }, "the volume was unmounted by another process");
    volume.dispatch({ type: "MountLost" });
  } finally {
    volume.dispatch({ type: "ReleaseEnded" });
  }
}

/** After a failed unstage. Where the check fails the volume counts as mounted: a stage checks again, and a publish checks for itself. */
async function noteUnmounted({ storage }: UnstageParts, volume: NodeVolume): Promise<void> {
  const mountPath = volume.state.mounted?.volume.mountPath;
  if (mountPath === undefined || (await isMountedAt(storage, volume.state, mountPath).catch(() => true))) return;
  volume.dispatch({ type: "MountLost" });
}

async function isMountedAt(
  storage: Pick<Mounting, "find">,
  { handle, record }: NodeVolumeState,
  mountPath: string,
): Promise<boolean> {
  const finding = storage.find(volumeOf(record), mountPath);
  return (await unlessHung(finding, FIND_LIMIT_MS, `finding ${handle}`)) !== undefined;
}

/** Records the problem only to report it: the agent tries again, and a pod that comes back has the volume staged again. */
function noteHeld(volume: NodeVolume, error: unknown): void {
  if (error instanceof StorageError) volume.dispatch({ type: "MembersNotGivenBack", message: error.message });
}
