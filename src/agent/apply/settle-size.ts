// Makes a member and its filesystem one size again, where a failed operation or a dead agent may have left them apart. Until
// that has succeeded nothing is decided about the volume's size; an emergency does not wait for it.

import { waitUntil } from "../../platform/process/async/pause.ts";
import type { Resizing } from "../storage/storage.ts";
import { unlessHung } from "../storage/storage-error.ts";
import type { NodeVolume } from "../volumes/node-volume.ts";
import { mountedVolumeOf, type NodeVolumeState, volumeModeOf } from "../volumes/volume-state.ts";

const RECOVER_LIMIT_MS = 120_000;
const FIRST_READING_LIMIT_MS = 2000;
const LOOK_INTERVAL_MS = 5;

/** What is not mounted, or at work, has its turn later. */
export function isToBeSettled({ unsettled, mounted, closing, running }: NodeVolumeState): boolean {
  return unsettled !== undefined && mounted !== undefined && !closing && running === undefined;
}

/** Whether the size may be decided upon now. Rejects when it did not succeed: it is to be tried again. */
export async function settleSize(storage: Pick<Resizing, "recover">, volume: NodeVolume): Promise<boolean> {
  const { mounted, record } = volume.state;
  if (mounted === undefined || !isToBeSettled(volume.state)) return true;
  // There is no filesystem that the member could differ from.
  if (volumeModeOf(record) === "Block") {
    volume.dispatch({ type: "Settled" });
    return true;
  }
  // What does not answer would take this thread along. The sampler looks first, and wakes the volume when it answers later.
  const isSame = ({ mounted: present }: NodeVolumeState): boolean => present?.volume === mounted.volume;
  const isKnown = (state: NodeVolumeState): boolean =>
    state.reading !== undefined || state.mounted?.hung === true || !isSame(state);
  if (!(await waitUntil(() => isKnown(volume.state), FIRST_READING_LIMIT_MS, LOOK_INTERVAL_MS))) return false;
  const { mounted: present, reading, running, closing } = volume.state;
  if (reading === undefined || present?.hung === true || running !== undefined || closing) return false;
  if (present?.readOnlySinceMs !== undefined) return false; // nothing can grow; the agent checks the volume again when it takes writes
  try {
    const recovering = storage.recover(mountedVolumeOf(mounted, volume.state.record));
    await unlessHung(recovering, RECOVER_LIMIT_MS, `recovering volume ${volume.handle}`);
  } catch (error) {
    volume.dispatch({ type: "NotSettled", message: error instanceof Error ? error.message : String(error) });
    throw error;
  }
  if (!isSame(volume.state)) return false;
  volume.dispatch({ type: "Settled" });
  return true;
}
