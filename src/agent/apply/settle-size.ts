// Makes a member and its filesystem one size again, where a failed operation or a dead agent may have left them apart. Until
// that has succeeded nothing is decided about the volume's size; an emergency does not wait for it.
import type { Storage } from "../storage/storage.ts";
import { waitUntil } from "../storage/wait-until.ts";
import { mountedVolumeOf, type VolumeState, volumeModeOf } from "../volumes/volume-state.ts";
import { withTimeLimit } from "../volumes/wait-with-limit.ts";

const RECOVER_LIMIT_MS = 120_000;
const FIRST_READING_LIMIT_MS = 2000;
const LOOK_INTERVAL_MS = 5;

/** What is not mounted, or at work, has its turn later. */
export function isToBeSettled({ unsettled, mounted, closing, running }: VolumeState): boolean {
  return unsettled && mounted !== undefined && !closing && running === undefined;
}

/** Whether the size may be decided upon now. Rejects when it did not succeed: it is to be tried again. */
export async function settleSize(storage: Pick<Storage, "recover">, state: VolumeState): Promise<boolean> {
  const { mounted } = state;
  if (mounted === undefined || !isToBeSettled(state)) return true;
  // There is no filesystem that the member could differ from.
  if (volumeModeOf(state.record) === "Block") {
    settled(state);
    return true;
  }
  // What does not answer would take this thread along. The sampler looks first, and wakes the volume when it answers later.
  const isKnown = (): boolean => state.reading !== undefined || state.hung || state.mounted !== mounted;
  if (!(await waitUntil(isKnown, FIRST_READING_LIMIT_MS, LOOK_INTERVAL_MS))) return false;
  if (state.reading === undefined || state.hung || state.running !== undefined || state.closing) return false;
  if (state.readOnlySinceMs !== undefined) return false; // nothing can grow; the volume is looked at when it takes writes again
  try {
    const recovering = storage.recover(mountedVolumeOf(mounted, state.record));
    await withTimeLimit(recovering, RECOVER_LIMIT_MS, `recovering volume ${state.handle}`);
  } catch (error) {
    state.settleProblem = error instanceof Error ? error.message : String(error);
    throw error;
  }
  if (state.mounted !== mounted) return false;
  settled(state);
  return true;
}

export function settled(state: VolumeState): void {
  state.unsettled = false;
  state.settleProblem = undefined;
}
